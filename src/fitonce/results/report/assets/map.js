// Sites on a map or as a graph, coloured by value.

class SiteMap extends Chart {
  constructor(figure, where, along, influence) {
    super(figure, (width) => Math.min(width, 520) + 56);
    this.where = where;
    this.along = along;
    this.layers = { "mean held-out loss": along.loss, control: along.control };
    if (along.values) this.layers.data = along.values;
    if (influence) this.layers["influence: displacement"] = spread(influence, along.loss.length);
    this.layer = Object.keys(this.layers)[0];
    for (const name of Object.keys(this.layers)) this.control("show").add(new Option(name, name));
    this.chosen = along.runs ? new FoldChoice(this, along.runs) : null;
    this.on("show", (box) => { this.layer = box.value; });
  }

  draw() {
    this.fitInto(12, 12, this.width - 24, this.tall - 24 - 56);
    const values = this.layers[this.layer], [low, high] = this.limits = middle(values);
    const paint = (i) => (Number.isFinite(values[i]) ? viridis((values[i] - low) / (high - low || 1)) : colour("line"));
    if (this.where.shapes) this.outlines(paint); else this.graph(paint);
    this.bar();
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
    const radius = Math.min(Math.max(this.width / Math.sqrt(count) / 5, 2), 10);
    for (let i = 0; i < count; i++) this.disc(...this.spot(i), radius, paint(i), this.chosen && this.chosen.has(i), i);
  }

  disc(x, y, radius, fill, left, i) {
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 7);
    this.pen.fillStyle = fill;
    this.pen.fill();
    this.pen.lineWidth = left ? 3 : 0.8;
    this.pen.strokeStyle = colour(left ? "second" : "ink");
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
    this.pen.lineWidth = 2.5;
    this.pen.strokeStyle = colour("second");
    if (this.chosen) this.paths.forEach((path, i) => { if (this.chosen.has(i)) this.pen.stroke(path); });
  }

  path(i) {
    const { shapes, rings } = this.where, path = new Path2D();
    for (let ring = shapes[i]; ring < shapes[i + 1]; ring++) {
      for (let k = rings[ring]; k < rings[ring + 1]; k++) path[k === rings[ring] ? "moveTo" : "lineTo"](...this.spot(k));
      path.closePath();
    }
    return path;
  }

  bar() {
    const [low, high] = this.limits, y = this.tall - 44, wide = Math.min(this.width - 24, 360), left = (this.width - wide) / 2;
    for (let c = 0; c < wide; c++) {
      this.pen.fillStyle = viridis(c / wide);
      this.pen.fillRect(left + c, y, 1.5, 12);
    }
    this.text(say(low, 3), left, y + 28);
    this.text(this.layer, this.width / 2, y + 28, "center", "ink");
    this.text(say(high, 3), left + wide, y + 28, "right");
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
    let x = 0, y = 0;
    const from = rings[shapes[i]], to = rings[shapes[i] + 1]; // its first outline
    for (let k = from; k < to; k++) { const [px, py] = this.spot(k); x += px; y += py; }
    return [x / (to - from), y / (to - from)];
  }

  step(i, by) { return i === null ? 0 : Math.min(Math.max(i + by, 0), this.along.loss.length - 1); }

  words(i) {
    const { along, where } = this;
    const lines = [where.names ? `site ${i}: ${where.names[i]}` : called(0, i, i).join(", ")];
    if (along.times[i]) lines.push(`loss: ${say(along.loss[i])}, mean over ${counted(along.times[i], "fold")}`, `control: ${say(along.control[i])}`);
    else lines.push("not scored");
    if (along.values) lines.push(this.gone(i) ? "data: missing" : `data: ${datum(along.values[i])}`);
    if (this.layer.startsWith("influence")) lines.push(`displacement: ${say(this.layers[this.layer][i])}`);
    if (this.chosen && this.chosen.has(i)) lines.push(`left out by fold ${this.chosen.fold()}`);
    return lines.join("\n");
  }
}

function extent(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

// The range of most values, so that a few extreme sites do not hide the rest.
function middle(values) {
  const sorted = values.filter(Number.isFinite).sort();
  if (!sorted.length) return [0, 1];
  const cut = sorted.length < 50 ? 0 : Math.floor(sorted.length * 0.02);
  return [sorted[cut], sorted[sorted.length - 1 - cut]];
}

function spread(influence, count) {
  const found = new Float32Array(count).fill(NaN);
  influence.site.forEach((site, i) => { found[site] = influence.displacement[i]; });
  return found;
}
