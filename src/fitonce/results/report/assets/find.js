// Search by name: what contains the text is counted, and the keys go from one to the next.

class Finder {
  constructor(chart) {
    this.chart = chart;
    this.field = chart.control("find");
    this.said = chart.figure.querySelector(".found");
    this.matches = [];
    this.at = 0;
    this.field.addEventListener("input", () => this.search());
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.matches.length) return;
      event.preventDefault();
      this.go(this.at + (event.shiftKey ? -1 : 1));
    });
  }

  search() {
    const wanted = this.field.value.trim().toLowerCase();
    this.matches = [];
    for (let i = 0; wanted && i < this.chart.count(); i++) {
      if (this.chart.point(i).toLowerCase().includes(wanted)) this.matches.push(i);
    }
    // What begins so comes first: "Ash" is Ashe before Nash.
    const late = (i) => (this.chart.point(i).toLowerCase().startsWith(wanted) ? 0 : 1);
    if (this.matches.length < 1000) this.matches.sort((i, j) => late(i) - late(j) || i - j);
    if (this.matches.length) { this.go(0); return; }
    this.said.textContent = wanted ? "none" : "";
    this.chart.choose(null);
  }

  go(k) {
    this.at = (k + this.matches.length) % this.matches.length;
    const i = this.matches[this.at];
    this.said.textContent = `${this.at + 1} of ${this.matches.length}: ${this.chart.point(i)}`;
    this.chart.reveal(i);
    this.chart.choose(i);
  }
}
