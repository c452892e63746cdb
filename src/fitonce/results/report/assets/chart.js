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
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.clearRect(0, 0, width, height);
    this.pen.font = "12px system-ui, sans-serif";
    this.draw();
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
    this.redraw();
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

  text(words, x, y, align = "left", ink = "soft") {
    this.pen.fillStyle = colour(ink);
    this.pen.textAlign = align;
    this.pen.fillText(words, x, y);
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
    this.text(label, panel.left, panel.top - 8);
  }

  axisX(panel, label, whole = false, names = null) {
    const bottom = panel.top + panel.tall;
    for (const [value, words] of ticks(...panel.x, panel.wide / (names ? 130 : 80), whole)) {
      const x = this.across(panel, value);
      if (names && !(value in names)) continue;
      this.line(x, bottom, x, bottom + 4, "soft");
      this.text(names ? brief(names[value]) : words, x, bottom + 17, "center");
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
