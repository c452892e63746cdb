// Unpacks the arrays of the page, formats numbers, looks up colours.

let SPOKEN = ["sequence", "time", "site"]; // the coordinates that identify a point
let CHANNEL = "data"; // the name of the data that are drawn
let NAMES = {}; // the user's names of sequences and sites, if any

// The parts of a place's name; a coordinate of -1 is left out.
function called(sequence, time, site) {
  const words = {
    sequence: () => (NAMES.sequences ? NAMES.sequences[sequence] : `sequence ${sequence}`),
    time: () => (NAMES.sites ? NAMES.sites[site] : `time ${time}`),
    site: () => (NAMES.sites ? NAMES.sites[site] : `site ${site}`),
  }, numbers = { sequence, time, site };
  return SPOKEN.filter((name) => numbers[name] >= 0).map((name) => words[name]());
}

function unpack(content) {
  if (Array.isArray(content) || content === null || typeof content !== "object") return content;
  const kinds = { f: Float32Array, i: Int32Array, h: Uint16Array, b: Uint8Array };
  for (const key in kinds) if (key in content && typeof content[key] === "string") return new kinds[key](bytes(content[key]));
  if ("r" in content) return Int32Array.from({ length: content.r[2] }, (_, k) => content.r[0] + k * content.r[1]);
  return Object.fromEntries(Object.entries(content).map(([key, value]) => [key, unpack(value)]));
}

function bytes(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found.buffer;
}

function say(value, digits = 4) {
  if (!Number.isFinite(value)) return "not available";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return size >= -4 && size < 7 ? value.toFixed(Math.max(digits - 1 - size, 0)) : value.toExponential(digits - 1);
}

function datum(value) { // without trailing zeros
  return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : "not available";
}

function counted(count, thing) { return `${count} ${thing}${count === 1 ? "" : "s"}`; }

function brief(name) { return name.length > 16 ? `${name.slice(0, 15)}…` : name; }

let COLOURS = {}; // looked up once for each drawing

function colour(name) {
  COLOURS[name] ||= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  return COLOURS[name];
}

function range(...arrays) {
  let low = Infinity, high = -Infinity;
  for (const values of arrays) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  const margin = (high - low) * 0.04 || Math.abs(high) * 0.05 || 1;
  return [low - margin, high + margin];
}

function ticks(low, high, about, whole = false) {
  const rough = Math.max((high - low) / Math.max(about, 1), whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough) || 10 * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) {
    const value = k * step || 0; // not -0
    found.push([value, digits > 5 ? (k === 0 ? "0" : value.toExponential(1)) : grouped(value, digits)]);
  }
  return found;
}

function grouped(value, digits) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// Viridis, which stays ordered for colour-blind readers and in grey; and blue to orange, around zero.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const AROUND_ZERO = [[0, 84, 150], [86, 160, 214], [226, 228, 230], [240, 160, 90], [176, 66, 0]];

function mixed(palette, share) {
  const place = Math.min(Math.max(share, 0), 1) * (palette.length - 1);
  const k = Math.min(Math.floor(place), palette.length - 2);
  return `rgb(${palette[k].map((from, i) => Math.round(from + (palette[k + 1][i] - from) * (place - k))).join(",")})`;
}

// A colour scale: share(i) from 0 to 1, the marks of its bar as [share, value], and what it says of itself.
function scaleOf(values, by, signed) {
  const known = Array.from(values.keys()).filter((i) => Number.isFinite(values[i]));
  const size = signed ? (i) => Math.abs(values[i]) : (i) => values[i];
  known.sort((i, j) => size(i) - size(j));
  const last = known.length - 1, at = (share) => (last < 0 ? NaN : size(known[Math.round(share * last)]));
  const share = new Float32Array(values.length).fill(NaN), [low, high] = [at(0), at(1)];
  for (let k = 0; k <= last;) { // equal values share their mean rank
    let stop = k;
    while (stop <= last && size(known[stop]) === size(known[k])) stop++;
    const linear = signed ? size(known[k]) / (high || 1) : (size(known[k]) - low) / (high - low || 1);
    const placed = by === "rank" ? (k + stop - 1) / 2 / (last || 1) : linear;
    for (; k < stop; k++) share[known[k]] = signed ? 0.5 + 0.5 * Math.sign(values[known[k]]) * placed : placed;
  }
  const quarter = [0, 0.25, 0.5, 0.75, 1];
  const middle = (q) => (by === "rank" ? at(q) : low + q * (high - low));
  const sized = (q) => (by === "rank" ? at(q) : q * high);
  const marks = signed ? [[0, -high], [0.25, -sized(0.5)], [0.5, 0], [0.75, sized(0.5)], [1, high]]
    : quarter.map((q) => [q, middle(q)]);
  return { share, marks, palette: signed ? AROUND_ZERO : VIRIDIS, largest: last < 0 ? null : known[last], median: at(0.5) };
}
