// Two losses of each left-out point, or their difference.

class Scatter extends Chart {
  constructor(figure, data, difference) {
    super(figure, (width) => Math.min(width, 480));
    this.data = data;
    this.difference = difference;
    this.shown = "control" in data;
    const apart = Array.from(data.x, (x, i) => Math.abs(data.y[i] - x));
    this.order = Array.from(apart.keys()).sort((i, j) => apart[j] - apart[i] || i - j);
    this.rank = new Int32Array(apart.length);
    this.order.forEach((point, rank) => { this.rank[point] = rank; });
    this.on("control", (box) => { this.shown = box.checked; });
  }

  value(series, i) { return this.data[series][i] - (this.difference ? this.data.x[i] : 0); }

  draw() {
    const { data } = this, drawn = this.shown ? ["y", "control"] : ["y"];
    const heights = drawn.map((series) => Float32Array.from(data.x, (_, i) => this.value(series, i)));
    const y = this.difference ? range(...heights, [0]) : range(...heights, data.x), tall = this.tall - 26 - 44;
    const left = this.leftOf([y, tall]);
    const panel = { left, top: 26, wide: this.width - left - 12, tall, x: range(data.x), y };
    if (!this.difference) panel.x = panel.y; // the line of agreement goes through the corners
    this.panel = panel;
    const loss = `held-out loss, ${data.unit}`;
    this.axisY(panel, this.difference ? `${data.ylabel} minus ${data.xlabel}, ${data.unit}` : `${loss}: ${data.ylabel}`);
    this.axisX(panel, `${loss}: ${data.xlabel}`);
    const ends = this.difference ? [0, 0] : panel.x;
    this.pen.setLineDash([6, 4]);
    this.line(panel.left, this.up(panel, ends[0]), panel.left + panel.wide, this.up(panel, ends[1]), "ink");
    this.pen.setLineDash([]);
    if (this.shown) this.triangles(panel);
    this.dots(panel);
  }

  dots(panel) {
    this.pen.fillStyle = colour("first");
    this.pen.globalAlpha = this.data.x.length > 500 ? 0.5 : 0.8;
    this.data.x.forEach((x, i) => {
      this.pen.beginPath();
      this.pen.arc(this.across(panel, x), this.up(panel, this.value("y", i)), 2.6, 0, 7);
      this.pen.fill();
    });
    this.pen.globalAlpha = 1;
  }

  triangles(panel) {
    this.pen.strokeStyle = colour("second");
    this.pen.lineWidth = 1.2;
    this.data.x.forEach((x, i) => {
      if (Number.isFinite(this.data.control[i])) {
        this.triangle(this.across(panel, x), this.up(panel, this.value("control", i)));
      }
    });
  }

  triangle(x, y) {
    this.pen.beginPath();
    this.pen.moveTo(x, y - 3.5);
    this.pen.lineTo(x + 3.5, y + 3);
    this.pen.lineTo(x - 3.5, y + 3);
    this.pen.closePath();
    this.pen.stroke();
  }

  pick(x, y) {
    let best = null, nearest = 18 ** 2;
    for (let i = 0; i < this.data.x.length; i++) {
      const [px, py] = this.place(i), far = (px - x) ** 2 + (py - y) ** 2;
      if (far < nearest) [best, nearest] = [i, far];
    }
    return best;
  }

  place(i) { return [this.across(this.panel, this.data.x[i]), this.up(this.panel, this.value("y", i))]; }

  step(i, by) {
    const rank = i === null ? 0 : this.rank[i] + by;
    return this.order.length ? this.order[Math.min(Math.max(rank, 0), this.order.length - 1)] : null;
  }

  words(i) {
    const { data } = this;
    const lines = [where(data, i), `${data.ylabel}: ${say(data.y[i], 5)}`, `${data.xlabel}: ${say(data.x[i], 5)}`];
    if (data.control) lines.push(`control: ${say(data.control[i], 5)}`);
    lines.push(`difference: ${say(data.y[i] - data.x[i], 2)}`);
    return lines.join("\n");
  }
}

function where(data, i) {
  const known = called(data.sequence[i], data.time[i], data.site[i]);
  return ("fold" in data && !(data.named && known.length) ? [`fold ${data.fold[i]}`, ...known] : known).join(", ");
}
