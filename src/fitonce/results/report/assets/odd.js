// How odd the sites of a map are: colours by p and by observed / expected, blue for less and orange for more.

class Oddness {
  constructor(chart, data, values) {
    this.chart = chart;
    this.data = data;
    this.layers = { "p, how odd": data.side };
    if (data.end) this.layers["observed / expected"] = data.expected.map((expected, i) => (expected > 0 ? values[i] / expected : NaN));
  }

  scale(layer) { return layer === "observed / expected" ? this.ratios(this.layers[layer]) : this.sides(); }

  knows(i) { return Number.isFinite(this.data.side[i]); }

  p(i) { return this.data.side[i] && Math.abs(this.data.side[i]) >= 299 ? "p < 1e-299" : `p ${brieflyP(10 ** -Math.abs(this.data.side[i]))}`; }

  words(i) {
    const side = this.data.side[i] < 0 ? "less" : "more";
    return [`expected: ${say(this.data.expected[i], 3)}`, `${this.p(i)}${this.data.side[i] ? `, ${side} than expected` : ""}`];
  }

  // The logarithm of p, with full colour where it is beyond chance among so many sites.
  sides() {
    const { side, level } = this.data, end = -Math.log10(level);
    const known = Array.from(side.keys()).filter((i) => this.knows(i)), beyond = known.filter((i) => Math.abs(side[i]) > end);
    const least = known.reduce((best, i) => (Math.abs(side[i]) > Math.abs(side[best]) ? i : best), known[0]);
    const at = (p) => -Math.log10(p) / end / 2;
    const marks = [level, 0.05].filter((p, k) => !k || p > 1.5 * level);
    const are = beyond.length ? `${beyond.length} ${beyond.length === 1 ? "is" : "are"}` : "none is";
    const chance = `Full colour: p below ${brieflyP(level)}, beyond chance among ${counted(known.length, "site")}; ${are}.`;
    return {
      share: side.map((value) => 0.5 + 0.5 * Math.min(Math.max(value / end, -1), 1)),
      palette: AROUND_ZERO,
      marks: [...marks.map((p) => [0.5 - at(p), brieflyP(p)]), [0.5, "1"], ...[...marks].reverse().map((p) => [0.5 + at(p), brieflyP(p)])],
      title: "p; blue: less than expected, orange: more",
      about: `p: the probability of a value as far out, if the model is right. ${chance} The smallest: ${this.p(least).replace(/^p /, "")} (${this.chart.point(least)}).`,
    };
  }

  ratios(ratio) {
    const { end } = this.data, known = Array.from(ratio.keys()).filter((i) => Number.isFinite(ratio[i]));
    const shares = ratio.map((value) => 0.5 + 0.5 * Math.min(Math.max(Math.log(value) / Math.log(end), -1), 1));
    const extreme = (better) => known.reduce((best, i) => (better(ratio[i], ratio[best]) ? i : best), known[0]);
    const named = (i) => `${say(ratio[i], 3)} (${this.chart.point(i)})`;
    const beyond = known.filter((i) => ratio[i] > end || ratio[i] < 1 / end).length;
    return {
      share: shares,
      palette: AROUND_ZERO,
      marks: [-1, -0.5, 0, 0.5, 1].map((power) => [0.5 + power / 2, datum(Number((end ** power).toPrecision(2)))]),
      title: "observed / expected; blue: less, orange: more",
      about: `Colours end at ${datum(Number((1 / end).toPrecision(2)))} and ${end}: ${counted(beyond, "site")} beyond. The largest: ${named(extreme((a, b) => a > b))}; `
        + `the smallest: ${named(extreme((a, b) => a < b))}. Where little is expected, ratios are far from 1 by chance: p says which are odd.`,
    };
  }
}

function brieflyP(p) { // as in the tables
  return p >= 1e-4 ? String(Number(p.toPrecision(2))) : p.toExponential(1).replace(".0e", "e").replace(/e-(\d)$/, "e-0$1");
}
