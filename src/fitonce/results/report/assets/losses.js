// Mean losses along time, sequences or folds, with the data below; what a fold left out is shaded.

class Losses extends Series {
  constructor(figure, data) {
    super(figure, 0, data.loss.length, () => (data.values ? 400 : 290));
    this.data = data;
    this.discrete = data.kind !== "site";
    this.control_ = false;
    this.sequence = -1;
    this.starts = [0];
    data.lengths.forEach((length) => this.starts.push(this.starts.at(-1) + length));
    this.missing = data.values ? gaps(data.values, data.times) : [];
    this.most = data.times.reduce((most, times) => Math.max(most, times), 1);
    this.chosen = data.runs ? new FoldChoice(this, data.runs) : null;
    if (data.layers) {
      this.layers = layersIn(this, data.layers);
      this.data = { ...data, loss: data.layers[this.layer] };
      this.on("show", (box) => { this.layer = box.value; this.data = { ...data, loss: data.layers[this.layer] }; });
    }
    if (this.control("find")) new Finder(this);
    this.on("control", (box) => { this.control_ = box.checked; });
    this.on("sequence", (box) => this.show(Number(box.value)));
  }

  count() { return this.data.loss.length; }

  reveal(i) {
    if (i < this.first || i >= this.stop) { // in another sequence than the one shown
      this.control("sequence").value = -1;
      this.show(-1);
    }
    super.reveal(i);
  }

  show(sequence) {
    this.sequence = sequence;
    this.choose(null);
    if (sequence < 0) this.bounds(0, this.data.loss.length);
    else this.bounds(this.starts[sequence], this.starts[sequence + 1]);
  }

  draw() {
    const { data } = this, top = 26, tall = 190;
    const seen = (values) => values.subarray(this.from, this.to);
    const drawn = this.control_ ? [seen(data.loss), seen(data.control)] : [seen(data.loss)];
    const high = range(...drawn, ...(this.layers ? [[0]] : [])), below = data.values ? range(seen(data.values)) : null;
    const left = this.leftOf([high, tall], ...(below ? [[below, this.tall - top - tall - 48 - 44]] : []));
    const losses = this.losses = this.panel(top, tall, high, left);
    const label = this.layers ? "difference of mean held-out losses" : (data.kind === "fold" ? "joint loss of the fold" : "mean held-out loss");
    this.axisY(losses, `${label}, ${data.unit}${this.control_ ? "; dashed: control" : ""}`);
    if (this.layers) this.line(left, this.up(losses, 0), left + losses.wide, this.up(losses, 0), "ink");
    this.background(losses);
    this.inside(losses, () => {
      this.curve(losses, data.loss, "first", true);
      if (!this.control_) return;
      this.pen.setLineDash([4, 4]); // so that the line below remains visible
      this.curve(losses, data.control, "second", false);
      this.pen.setLineDash([]);
    });
    let last = losses;
    if (data.kind === "site") last = this.strip(this.panel(top + tall + 6, 10, [0, 1], left));
    if (below) last = this.values(this.panel(top + tall + 48, this.tall - top - tall - 48 - 44, below, left));
    this.labels(last);
  }

  background(panel) {
    this.shade(panel, this.missing, this.hatch());
    if (this.chosen) {
      this.pen.globalAlpha = this.chosen.data.scored ? 0.45 : 1;
      this.shade(panel, this.chosen.runs(), colour("shade"));
      this.pen.globalAlpha = 1;
      if (this.chosen.data.scored) this.shade(panel, this.chosen.runs(this.chosen.data.scored), colour("shade"));
    }
    if (this.starts.length < 3) return;
    for (const start of this.starts.slice(1, -1)) {
      if (start <= this.from || start >= this.to) continue;
      const x = this.across(panel, start - 0.5);
      this.line(x, panel.top, x, panel.top + panel.tall, "soft");
    }
  }

  strip(panel) {
    const { high } = this.columns(panel, this.data.times);
    this.pen.fillStyle = colour("first");
    high.forEach((times, c) => {
      this.pen.globalAlpha = Number.isFinite(times) ? times / this.most : 0;
      this.pen.fillRect(panel.left + c, panel.top, 1, panel.tall);
    });
    if (this.to - this.from < panel.wide) this.cells(panel);
    this.pen.globalAlpha = 1;
    this.text("folds", panel.left - 6, panel.top + 9, "right");
    return panel;
  }

  cells(panel) { // for cells wider than a pixel
    this.pen.clearRect(panel.left, panel.top, panel.wide, panel.tall);
    for (let i = this.from; i < this.to; i++) {
      const x = this.across(panel, i - 0.5);
      this.pen.globalAlpha = this.data.times[i] / this.most;
      this.pen.fillRect(x, panel.top, this.across(panel, i + 0.5) - x, panel.tall);
    }
  }

  values(panel) {
    this.axisY(panel, this.data.shown);
    this.background(panel);
    this.inside(panel, () => this.curve(panel, this.data.values, "ink", true));
    return panel;
  }

  labels(panel) {
    const { kind } = this.data;
    if (kind !== "site") { this.axisX(panel, kind, true, kind === "sequence" && NAMES.sequences ? NAMES.sequences : null); return; }
    if (this.sequence < 0 && this.starts.length > 2) { this.axisX(panel, "point, across all sequences", true); return; }
    if (NAMES.sites) { this.axisX(panel, "", true, NAMES.sites); return; }
    const start = this.sequence < 0 ? 0 : this.starts[this.sequence];
    this.axisX({ ...panel, x: panel.x.map((value) => value - start) }, "time", true);
  }

  pick(x, y) {
    const [from, to] = this.near(this.losses, x);
    let best = null, nearest = Infinity;
    for (let i = from; i <= to; i++) {
      const [px, py] = this.place(i), far = (px - x) ** 2 + (y < this.losses.top + this.losses.tall ? (py - y) ** 2 : 0);
      if (far < nearest) [best, nearest] = [i, far];
    }
    return best;
  }

  place(i) {
    const value = this.data.loss[i], panel = this.losses;
    return [this.across(panel, i), Number.isFinite(value) ? this.up(panel, value) : panel.top + panel.tall];
  }

  step(i, by) {
    const size = Math.max(1, Math.round((this.to - this.from) / this.losses.wide));
    return i === null ? this.from : Math.min(Math.max(i + by * size, this.from), this.to - 1);
  }

  words(i) {
    const { data } = this;
    const lines = [this.point(i)];
    if (this.layers) {
      lines.push(Number.isFinite(data.loss[i]) ? `${this.layer}: ${say(data.loss[i])}` : "not scored");
    } else if (data.times[i]) {
      const many = data.kind === "fold" ? "" : `, mean over ${counted(data.times[i], "fold")}`;
      lines.push(`loss: ${say(data.loss[i])}${many}`, `control: ${say(data.control[i])}`);
    } else lines.push("not scored");
    if (data.values) lines.push(Number.isFinite(data.values[i]) ? `${data.channel}: ${datum(data.values[i])}` : `${data.channel}: missing`);
    if (this.chosen && this.chosen.has(i)) lines.push(this.chosen.about(i));
    return lines.join("\n");
  }

  point(i) {
    if (this.data.kind === "fold") return `fold ${i}`;
    if (this.data.kind === "sequence") return called(i, -1, -1).join(", ") || `sequence ${i}`;
    let sequence = 0;
    while (this.starts[sequence + 1] <= i) sequence++;
    return called(sequence, i - this.starts[sequence], i).join(", ");
  }
}

function gaps(values, times) { // a point that was scored was observed in another channel
  const found = [], gone = (i) => !Number.isFinite(values[i]) && !times[i];
  for (let i = 0; i < values.length; i++) {
    if (!gone(i)) continue;
    const start = i;
    while (i < values.length && gone(i)) i++;
    found.push([start, i]);
  }
  return found;
}

// Fills the choice of what to show.
function layersIn(chart, layers) {
  [chart.layer] = Object.keys(layers);
  for (const name of Object.keys(layers)) chart.control("show").add(new Option(name, name));
  return layers;
}

// The fold selected by the reader, and what it left out.
class FoldChoice {
  constructor(chart, data) {
    this.data = data;
    this.chart = chart;
    this.k = 0;
    this.output = chart.figure.querySelector(".said");
    chart.on("fold", (slider) => { this.k = Number(slider.value); this.update(); });
    requestAnimationFrame(() => this.update()); // when the chart is complete
    this.collect();
  }

  fold() { return this.data.folds[this.k]; }

  runs(from = this.data) {
    const found = [];
    for (let i = from.offsets[this.k]; i < from.offsets[this.k + 1]; i++) found.push([from.start[i], from.start[i] + from.length[i]]);
    return found;
  }

  has(site) { return this.sites.has(site); }

  scores(site) { return this.scored.has(site); }

  about(site) {
    if (this.named()) return this.scores(site) ? "left out" : `left out with ${this.places()}, not scored`;
    return this.scores(site) ? `left out by fold ${this.fold()}` : `left out with fold ${this.fold()}, not scored by it`;
  }

  collect() {
    const all = (runs) => new Set(runs.flatMap(([start, stop]) => Array.from({ length: stop - start }, (_, k) => start + k)));
    this.sites = all(this.runs());
    this.scored = this.data.scored ? all(this.runs(this.data.scored)) : this.sites;
  }

  update() {
    this.collect();
    const { data, k } = this, verdict = data.ok[k] ? data.verdicts[data.verdict[k]] : "no usable number";
    const name = this.named() ? this.places() : `${this.fold()} (${this.places()})`;
    this.output.textContent = `${name}: loss ${say(data.loss[k])}, ${verdict}`;
  }

  named() { return this.scored.size === 1 && Boolean(NAMES.sites); } // a fold of one site is called by its name

  places() { // the first and last in time, or a few sites
    const sites = Array.from(this.scored).sort((i, j) => i - j), named = (i) => this.chart.point(i);
    if (!sites.length) return "nothing scored";
    if (sites.length === 1) return named(sites[0]);
    if (!SPOKEN.includes("site")) return `${named(sites[0])} to ${named(sites.at(-1))}`;
    return sites.slice(0, 3).map(named).join(", ") + (sites.length > 3 ? ` and ${sites.length - 3} more` : "");
  }
}
