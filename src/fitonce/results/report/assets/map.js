// Sites on a map or as a graph, coloured by value.

class SiteMap extends Chart {
  constructor(figure, where, along, influence) {
    const [x, y] = [extent(where.x), extent(where.y)], shape = (y[1] - y[0]) / (x[1] - x[0] || 1);
    super(figure, (width) => Math.min(Math.max(width * shape, 120), 520) + 94);
    this.where = where;
    this.along = along;
    const layers = along.layers || { [`mean held-out loss, ${along.unit}`]: along.loss, control: along.control };
    if (along.values) layers[along.channel] = along.values;
    if (influence) layers["influence: displacement"] = spread(influence, along.loss.length);
    this.odd = along.odd ? new Oddness(this, along.odd, along.values) : null;
    this.layers = layersIn(this, { ...layers, ...(this.odd ? this.odd.layers : {}) });
    this.scale = "rank";
    this.said = figure.querySelector(".scale");
    this.chosen = along.runs ? new FoldChoice(this, along.runs) : null;
    this.on("show", (box) => { this.layer = box.value; });
    this.on("scale", (box) => { this.scale = box.value; });
    if (this.control("find")) new Finder(this);
  }

  count() { return this.along.loss.length; }

  point(i) { return called(0, i, i).join(", "); }

  reveal() {} // all of the map is shown

  draw() {
    this.fitInto(12, 12, this.width - 24, this.tall - 24 - 70);
    const values = this.layers[this.layer], signed = Boolean(this.along.layers) && this.layer in this.along.layers;
    const own = this.odd && this.layer in this.odd.layers, scale = own ? this.odd.scale(this.layer) : scaleOf(values, this.scale, signed);
    if (this.control("scale")) this.control("scale").closest("label").hidden = Boolean(own);
    this.ring = scale.palette === AROUND_ZERO ? "ink" : "second"; // orange would be lost among the colours
    const paint = (i) => (Number.isFinite(scale.share[i]) ? mixed(scale.palette, scale.share[i]) : colour("missing"));
    if (this.where.shapes) this.outlines(paint); else this.graph(paint);
    this.bar(scale);
    this.said.textContent = scale.about || this.about(values, scale, signed);
  }

  about(values, scale, signed) {
    if (scale.largest === null) return "";
    const top = `${say(values[scale.largest])} (${this.point(scale.largest)})`;
    if (this.scale === "value") return `Colours by value, over the full range; the largest${signed ? " in size" : ""}: ${top}.`;
    const what = signed ? "half of the sites differ by less than" : "half of the sites are below";
    return `Colours by rank, not by value: ${what} ${say(scale.median)}; the largest${signed ? " in size" : ""}: ${top}.`;
  }

  // One scale for both directions; y points up.
  fitInto(left, top, wide, tall) {
    const [x, y] = [extent(this.where.x), extent(this.where.y)];
    const scale = Math.min(wide / (x[1] - x[0] || 1), tall / (y[1] - y[0] || 1));
    const [dx, dy] = [left + (wide - scale * (x[1] - x[0])) / 2, top + (tall - scale * (y[1] - y[0])) / 2];
    this.spot = (i) => [dx + scale * (this.where.x[i] - x[0]), dy + scale * (y[1] - this.where.y[i])];
  }

  graph(paint) {
    const { edges } = this.where, count = this.along.loss.length;
    this.pen.strokeStyle = colour("missing");
    this.pen.lineWidth = 0.8;
    this.pen.beginPath();
    for (let k = 0; k < edges.length; k += 2) {
      this.pen.moveTo(...this.spot(edges[k]));
      this.pen.lineTo(...this.spot(edges[k + 1]));
    }
    this.pen.stroke();
    const radius = this.radius = Math.min(Math.max(this.width / Math.sqrt(count) / 5, 1), 10);
    if (count > 3000) { this.squares(radius, paint); return; }
    for (let i = 0; i < count; i++) this.disc(...this.spot(i), radius, paint(i), this.chosen && this.chosen.has(i), i);
  }

  squares(radius, paint) { // many sites: without outlines, but for those left out
    for (let i = 0; i < this.along.loss.length; i++) {
      const [x, y] = this.spot(i);
      this.pen.fillStyle = paint(i);
      this.pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
    }
    if (this.chosen) for (const i of this.chosen.sites) this.disc(...this.spot(i), radius + 2, paint(i), true, i);
  }

  disc(x, y, radius, fill, left, i) {
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 7);
    this.pen.fillStyle = fill;
    this.pen.fill();
    this.pen.lineWidth = left ? (this.chosen.scores(i) ? 3 : 1.5) : 0.8;
    this.pen.strokeStyle = colour(left ? this.ring : "ink");
    this.pen.stroke();
    if (this.gone(i)) this.cross(x, y, radius * 0.6);
  }

  gone(i) { return this.along.values && !Number.isFinite(this.along.values[i]); }

  cross(x, y, size) {
    this.line(x - size, y - size, x + size, y + size, "ink", 1.5);
    this.line(x - size, y + size, x + size, y - size, "ink", 1.5);
  }

  outlines(paint) {
    const { shapes } = this.where;
    this.paths = Array.from({ length: shapes.length - 1 }, (_, i) => this.path(i));
    this.pen.lineJoin = "round";
    this.paths.forEach((path, i) => {
      this.pen.fillStyle = paint(i);
      this.pen.fill(path, "evenodd");
      this.pen.lineWidth = 0.6;
      this.pen.strokeStyle = colour("paper");
      this.pen.stroke(path);
      if (this.gone(i)) this.cross(...this.place(i), 4);
    });
    if (!this.chosen) return;
    for (const i of Array.from(this.chosen.sites).sort((a, b) => this.chosen.scores(a) - this.chosen.scores(b))) {
      this.pen.lineWidth = this.chosen.scores(i) ? 3.5 : 1.5;
      this.pen.strokeStyle = colour(this.ring);
      this.pen.stroke(this.paths[i]);
    }
  }

  path(i) {
    const { shapes, rings } = this.where, path = new Path2D();
    for (let ring = shapes[i]; ring < shapes[i + 1]; ring++) {
      for (let k = rings[ring]; k < rings[ring + 1]; k++) path[k === rings[ring] ? "moveTo" : "lineTo"](...this.spot(k));
      path.closePath();
    }
    return path;
  }

  bar(scale) {
    const y = this.tall - 34, wide = Math.min(this.width - 40, 420), left = (this.width - wide) / 2;
    for (let c = 0; c < wide; c++) {
      this.pen.fillStyle = mixed(scale.palette, c / wide);
      this.pen.fillRect(left + c, y, 1.5, 12);
    }
    const title = this.along.layers ? `difference, ${this.along.unit}` : this.layer;
    this.text(scale.title || `${title}, colours by ${this.scale}`, this.width / 2, y - 8, "center", "ink");
    let end = -Infinity;
    for (const [share, value] of scale.marks) {
      const x = left + share * wide, words = typeof value === "string" ? value : say(value, 3), [start, size] = this.span(words, x, "center");
      this.line(x, y + 12, x, y + 15, "soft");
      if (start < end + 8) continue;
      this.text(words, x, y + 28, "center");
      end = start + size;
    }
  }

  pick(x, y) {
    const ratio = window.devicePixelRatio || 1;
    if (this.paths) {
      const found = this.paths.findIndex((path) => this.pen.isPointInPath(path, x * ratio, y * ratio, "evenodd"));
      return found < 0 ? null : found;
    }
    let best = null, nearest = 24 ** 2;
    for (let i = 0; i < this.along.loss.length; i++) {
      const [px, py] = this.spot(i), far = (px - x) ** 2 + (py - y) ** 2;
      if (far < nearest) [best, nearest] = [i, far];
    }
    return best;
  }

  place(i) {
    const { shapes, rings } = this.where;
    if (!shapes) return this.spot(i);
    if (shapes[i] === shapes[i + 1]) return [0, 0]; // without an outline
    let x = 0, y = 0;
    const from = rings[shapes[i]], to = rings[shapes[i] + 1]; // its first outline
    for (let k = from; k < to; k++) { const [px, py] = this.spot(k); x += px; y += py; }
    return [x / (to - from), y / (to - from)];
  }

  step(i, by) { return i === null ? 0 : Math.min(Math.max(i + by, 0), this.along.loss.length - 1); }

  words(i) {
    const { along } = this;
    const lines = [this.point(i)];
    if (along.layers) {
      const values = this.layers[this.layer];
      lines.push(Number.isFinite(values[i]) ? `${this.layer}: ${say(values[i])}` : "not scored");
    } else if (along.times[i]) lines.push(`loss: ${say(along.loss[i])}, mean over ${counted(along.times[i], "fold")}`, `control: ${say(along.control[i])}`);
    else lines.push("not scored");
    if (along.values) lines.push(`${along.channel}: ${this.gone(i) ? "missing" : datum(along.values[i])}`);
    if (this.odd && this.odd.knows(i)) lines.push(...this.odd.words(i));
    if (this.layer.startsWith("influence: ")) lines.push(`displacement: ${say(this.layers[this.layer][i])}`);
    if (this.chosen && this.chosen.has(i)) lines.push(this.chosen.about(i));
    return lines.join("\n");
  }
}

function extent(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function spread(influence, count) {
  const found = new Float32Array(count).fill(NaN);
  influence.site.forEach((site, i) => { found[site] = influence.displacement[i]; });
  return found;
}
