// Creates the charts of the page.

const CHARTS = [];

function begin() {
  const data = unpack(JSON.parse(document.getElementById("data").textContent));
  SPOKEN = data.spoken;
  NAMES = data.names || {};
  CHANNEL = (data.along && data.along.channel) || "data";
  const add = (name, make) => {
    const figure = document.getElementById(`chart-${name}`);
    if (figure) CHARTS.push(make(figure));
  };
  add("scatter", (figure) => new Scatter(figure, data.scatter, false));
  add("differences", (figure) => new Scatter(figure, data.scatter, true));
  add("along", (figure) => new Losses(figure, data.along));
  add("map", (figure) => new SiteMap(figure, data.map, data.along, data.influence));
  add("influence", (figure) => new Stems(figure, data.influence));
  const redraw = () => CHARTS.forEach((chart) => chart.redraw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); redraw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); redraw(); });
  redraw();
  performance.mark("ready"); // for tests and benchmarks
}

begin();
