// Values along the data, with zooming and panning by buttons and keys.

class Series extends Chart {
  constructor(figure, first, stop, height) {
    super(figure, height);
    this.bounds(first, stop);
    figure.querySelectorAll("[data-zoom]").forEach((button) => {
      button.addEventListener("click", () => this.zoom(button.dataset.zoom));
    });
  }

  bounds(first, stop) {
    [this.first, this.stop] = [first, Math.max(stop, first + 1)];
    [this.from, this.to] = [this.first, this.stop];
  }

  zoom(how) {
    const wide = this.to - this.from, factor = { in: 0.5, out: 2, all: Infinity }[how] || 1;
    const size = Math.min(Math.max(Math.round(wide * factor), 8), this.stop - this.first);
    const shift = { left: -0.5, right: 0.5 }[how] || 0;
    const middle = (this.picked !== null ? this.at(this.picked) : (this.from + this.to) / 2) + shift * wide;
    const from = Math.round((how in { left: 1, right: 1 } ? this.from + shift * wide : middle - size / 2));
    this.from = Math.min(Math.max(from, this.first), this.stop - size);
    this.to = this.from + size;
    this.choose(null);
    this.redraw();
  }

  key(event) {
    if (event.key === "+" || event.key === "=") this.zoom("in");
    else if (event.key === "-") this.zoom("out");
    else { super.key(event); return; }
    event.preventDefault();
  }

  at(thing) { return thing; } // its position along the data

  reveal(i) { // nearer, where points are too dense to be seen
    const wide = this.to - this.from, size = Math.min(wide, 200);
    if (i >= this.from && i < this.to && wide === size) return;
    this.from = Math.min(Math.max(Math.round(i - size / 2), this.first), Math.max(this.stop - size, this.first));
    this.to = this.from + size;
    this.redraw();
  }

  panel(top, tall, y, left = this.leftOf([y, tall])) {
    return { left, top, tall, wide: this.width - left - 12, x: [this.from - 0.5, this.to - 0.5], y };
  }

  inside(panel, what) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(panel.left, panel.top - 1, panel.wide, panel.tall + 2);
    this.pen.clip();
    what();
    this.pen.restore();
  }

  shade(panel, runs, fill) {
    this.pen.fillStyle = fill;
    for (const [start, stop] of runs) {
      if (stop <= this.from || start >= this.to) continue;
      const x = this.across(panel, start - 0.5), wide = this.across(panel, stop - 0.5) - x;
      this.pen.fillRect(x, panel.top, Math.max(wide, 1), panel.tall);
    }
  }

  hatch() {
    if (this.hatched && this.hatchedFor === colour("missing")) return this.hatched;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = this.hatchedFor = colour("missing");
    [[-1, 1, 1, -1], [0, 6, 6, 0], [5, 7, 7, 5]].forEach(([a, b, c, d]) => { pen.moveTo(a, b); pen.lineTo(c, d); });
    pen.stroke();
    this.hatched = this.pen.createPattern(tile, "repeat");
    return this.hatched;
  }

  // Minimum, maximum and mean of the values in each column of pixels.
  columns(panel, values) {
    const count = Math.ceil(panel.wide), low = new Float32Array(count).fill(NaN), high = low.slice();
    const sum = new Float64Array(count), times = new Int32Array(count);
    for (let i = this.from; i < this.to; i++) {
      const value = values[i];
      if (!Number.isFinite(value)) continue;
      const c = Math.min(Math.floor((i + 0.5 - this.from) / (this.to - this.from) * count), count - 1);
      if (!(low[c] <= value)) low[c] = value;
      if (!(high[c] >= value)) high[c] = value;
      sum[c] += value;
      times[c] += 1;
    }
    return { low, high, mean: Float32Array.from(sum, (total, c) => total / times[c]) };
  }

  curve(panel, values, ink, band) {
    const dense = (this.to - this.from) > panel.wide;
    if (!dense) { this.polyline(panel, this.from, this.to, (i) => this.across(panel, i), values, ink); return; }
    const { low, high, mean } = this.columns(panel, values);
    if (band) {
      this.pen.fillStyle = colour("band");
      low.forEach((value, c) => {
        const y = this.up(panel, high[c]);
        if (Number.isFinite(value)) this.pen.fillRect(panel.left + c, y, 1, Math.max(this.up(panel, value) - y, 1));
      });
    }
    this.polyline(panel, 0, mean.length, (c) => panel.left + c + 0.5, mean, ink);
  }

  polyline(panel, from, to, across, values, ink) {
    const dots = this.discrete || panel.wide / (to - from) > 5, half = this.discrete ? 3 : 1.5;
    this.pen.strokeStyle = this.pen.fillStyle = colour(ink);
    this.pen.lineWidth = 1.5;
    this.pen.beginPath();
    let open = false;
    for (let i = from; i < to; i++) {
      const known = Number.isFinite(values[i]), alone = !open && known && !Number.isFinite(values[i + 1]);
      if (known) this.pen[open ? "lineTo" : "moveTo"](across(i), this.up(panel, values[i]));
      if (dots || alone) this.pen.fillRect(across(i) - half, this.up(panel, values[i]) - half, 2 * half, 2 * half);
      open = known;
    }
    if (!this.discrete) this.pen.stroke(); // sequences and folds are not connected
  }

  // The first and last place within reach of the pointer.
  near(panel, x, reach = 4) {
    const per = (this.to - this.from) / panel.wide, middle = this.from - 0.5 + (x - panel.left) * per;
    const from = Math.round(Math.min(middle - reach * per, Math.floor(middle + 0.5)));
    const to = Math.round(Math.max(middle + reach * per, Math.floor(middle + 0.5)));
    return [Math.max(from, this.from), Math.min(to, this.to - 1)];
  }
}

// The influence of each point, as stems.
class Stems extends Series {
  constructor(figure, data) {
    let last = 0;
    for (const site of data.site) if (site > last) last = site;
    super(figure, 0, last + 1, () => 240);
    this.data = data;
    this.index = new Int32Array(last + 1).fill(-1);
    this.values = new Float32Array(last + 1).fill(NaN);
    data.site.forEach((site, i) => { this.index[site] = i; this.values[site] = data.displacement[i]; });
    if (this.control("find")) new Finder(this);
  }

  count() { return this.index.length; }

  point(site) { return this.index[site] < 0 ? "" : where(this.data, this.index[site]); }

  draw() {
    const panel = this.shown = this.panel(26, this.tall - 26 - 44, range(this.values, [0]));
    this.axisY(panel, "displacement");
    const several = SPOKEN.includes("sequence");
    this.axisX(panel, several ? "point, across all sequences" : SPOKEN[0], true, several ? null : NAMES.sites);
    const { low, high } = this.columns(panel, this.values), zero = this.up(panel, 0);
    const dense = (this.to - this.from) > panel.wide;
    this.inside(panel, () => {
      this.pen.fillStyle = colour("first");
      const stem = (x, value, wide) => {
        const y = this.up(panel, value);
        if (Number.isFinite(value)) this.pen.fillRect(x, Math.min(y, zero), wide, Math.max(Math.abs(zero - y), 1));
      };
      if (dense) high.forEach((value, c) => { stem(panel.left + c, value, 1); if (low[c] < 0) stem(panel.left + c, low[c], 1); });
      else for (let i = this.from; i < this.to; i++) stem(this.across(panel, i) - 1, this.values[i], 2);
    });
  }

  pick(x) {
    const [from, to] = this.near(this.shown, x);
    let best = null;
    for (let site = from; site <= to; site++) {
      if (this.index[site] >= 0 && (best === null || Math.abs(this.values[site]) > Math.abs(this.values[best]))) best = site;
    }
    return best;
  }

  place(site) { return [this.across(this.shown, site), this.up(this.shown, this.values[site])]; }

  step(site, by) {
    let next = site === null ? this.from : site + by;
    while (next >= this.from && next < this.to && this.index[next] < 0) next += Math.sign(by);
    return next >= this.from && next < this.to ? next : site;
  }

  words(site) {
    const { data } = this, i = this.index[site];
    const lines = [where(data, i), `displacement: ${say(data.displacement[i])}`];
    if (data.value) lines.push(`loss at the fit: ${say(data.loss[i])}`, `${CHANNEL}: ${datum(data.value[i])}`);
    else lines.push(`surprise of the label: ${say(data.loss[i])}`);
    return lines.join("\n");
  }
}
