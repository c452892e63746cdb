// The base of all charts: a sharp canvas, axes, and selection by mouse, touch or keyboard.

class Chart {
  constructor(figure, height) {
    this.figure = figure;
    this.canvas = figure.querySelector("canvas");
    this.readout = figure.querySelector(".readout");
    this.tip = document.getElementById("tip");
    this.height = height;
    this.picked = null;
    this.listen();
    // In the next frame: browsers report an error if a chart changes its height while being measured.
    const resized = () => { if (this.canvas.clientWidth !== this.width) this.redraw(); };
    new ResizeObserver(() => requestAnimationFrame(resized)).observe(this.canvas);
  }

  // Each chart defines draw(), pick(x, y) -> thing or null, place(thing) -> [x, y],
  // words(thing) -> text, step(thing or null, by) -> next thing.

  redraw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const height = this.height(width), ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.width = width;
    this.tall = height;
    COLOURS = {};
    this.texts = []; // where each text is: tests ask
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.pen.font = "12px system-ui, sans-serif";
    this.draw();
    this.base = this.base || document.createElement("canvas");
    [this.base.width, this.base.height] = [this.canvas.width, this.canvas.height];
    this.base.getContext("2d").drawImage(this.canvas, 0, 0);
    if (this.picked !== null) this.mark(...this.place(this.picked));
  }

  remark() { // another point is picked: what was drawn is still true
    if (!this.base || this.width !== this.canvas.clientWidth) { this.redraw(); return; }
    this.pen.save();
    this.pen.setTransform(1, 0, 0, 1, 0, 0);
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.pen.drawImage(this.base, 0, 0);
    this.pen.restore();
    if (this.picked !== null) this.mark(...this.place(this.picked));
  }

  listen() {
    const at = (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.choose(this.pick(event.clientX - box.left, event.clientY - box.top));
    };
    this.canvas.addEventListener("pointermove", at);
    this.canvas.addEventListener("pointerdown", at);
    this.canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.choose(null); // lifting a finger keeps the selection
    });
    this.canvas.addEventListener("blur", () => this.choose(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("scroll", () => { this.tip.hidden = true; }, { passive: true });
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (event.key === "Escape") this.choose(null);
    else if (event.key in steps) this.choose(this.step(this.picked, steps[event.key]));
    else return;
    event.preventDefault();
  }

  choose(thing) {
    if (thing === this.picked && thing === null) return;
    this.picked = thing;
    this.remark();
    if (thing === null) {
      if (this.tip.chart === this) this.tip.hidden = true; // charts share the tooltip, and another may be using it by now
      return;
    }
    this.tip.chart = this;
    this.tip.hidden = false;
    const words = this.words(thing), box = this.canvas.getBoundingClientRect();
    this.tip.textContent = words;
    this.readout.textContent = words.replaceAll("\n", "; ");
    const [x, y] = this.place(thing), size = this.tip.getBoundingClientRect();
    const left = Math.min(Math.max(box.left + x + 12, 4), document.documentElement.clientWidth - size.width - 4);
    const above = box.top + y - size.height - 12;
    this.tip.style.left = `${Math.max(left, 4)}px`;
    this.tip.style.top = `${above > 4 ? above : box.top + y + 14}px`;
  }

  mark(x, y) {
    this.pen.strokeStyle = colour("ink");
    this.pen.lineWidth = 2;
    this.pen.beginPath();
    this.pen.arc(x, y, 6, 0, 7);
    this.pen.stroke();
  }

  // Shifted sideways where the edge would cut it.
  text(said, x, y, align = "left", ink = "soft") {
    const words = this.fitting(said), [start, wide] = this.span(words, x, align);
    this.pen.fillStyle = colour(ink);
    this.pen.textAlign = "left";
    this.pen.fillText(words, start, y);
    this.texts.push({ words, left: start, right: start + wide, top: y - 10, bottom: y + 2 });
  }

  fitting(words) { // what is wider than the chart ends in dots
    let last = words.length;
    const short = () => (last < words.length ? `${words.slice(0, last)}…` : words);
    while (last > 1 && this.pen.measureText(short()).width > this.width - 2) last--;
    return short();
  }

  span(words, x, align) {
    const wide = this.pen.measureText(words).width, start = x - wide * { left: 0, center: 0.5, right: 1 }[align];
    return [Math.max(Math.min(start, this.width - wide - 1), 1), wide];
  }

  // Room for the numbers of vertical axes, given as [range, height].
  leftOf(...axes) {
    let wide = 32;
    for (const [y, tall] of axes) {
      for (const [, words] of ticks(...y, Math.min(tall / 40, 7))) wide = Math.max(wide, this.pen.measureText(words).width);
    }
    return Math.ceil(wide) + 14;
  }

  line(x1, y1, x2, y2, ink = "line", wide = 1) {
    this.pen.strokeStyle = colour(ink);
    this.pen.lineWidth = wide;
    this.pen.beginPath();
    this.pen.moveTo(x1, y1);
    this.pen.lineTo(x2, y2);
    this.pen.stroke();
  }

  // A panel is a plotting area: {left, top, wide, tall, x: [low, high], y: [low, high]}.
  across(panel, value) { return panel.left + panel.wide * (value - panel.x[0]) / (panel.x[1] - panel.x[0]); }

  up(panel, value) { return panel.top + panel.tall * (1 - (value - panel.y[0]) / (panel.y[1] - panel.y[0])); }

  axisY(panel, label) {
    for (const [value, words] of ticks(...panel.y, Math.min(panel.tall / 40, 7))) {
      const y = this.up(panel, value);
      this.line(panel.left, y, panel.left + panel.wide, y);
      this.text(words, panel.left - 6, y + 4, "right");
    }
    this.text(label, 1, panel.top - 10);
  }

  axisX(panel, label, whole = false, names = null) {
    const bottom = panel.top + panel.tall;
    let end = -Infinity;
    for (const [value, words] of ticks(...panel.x, panel.wide / (names ? 130 : 80), whole)) {
      const x = this.across(panel, value), shown = names ? names[value] : words;
      if (shown === undefined) continue;
      this.line(x, bottom, x, bottom + 4, "soft");
      const [start, wide] = this.span(brief(shown), x, "center");
      if (start < end + 8) continue; // it would touch the one before
      this.text(brief(shown), x, bottom + 17, "center");
      end = start + wide;
    }
    this.line(panel.left, bottom, panel.left + panel.wide, bottom, "soft");
    this.text(label, panel.left + panel.wide, bottom + 34, "right");
  }

  control(name) { return this.figure.querySelector(`[name="${name}"]`); }

  on(name, what) {
    const found = this.control(name);
    const event = found && found.tagName === "SELECT" ? "change" : "input";
    if (found) found.addEventListener(event, () => { what(found); this.redraw(); });
  }
}
