// Unpacks the arrays of the page, formats numbers, looks up colours.

let SPOKEN = ["sequence", "time", "site"]; // the coordinates that identify a point
let NAMES = {}; // the user's names of sequences and sites, if any

// The parts of a place's name; a coordinate of -1 is left out.
function called(sequence, time, site) {
  const words = {
    sequence: () => (NAMES.sequences ? NAMES.sequences[sequence] : `sequence ${sequence}`),
    time: () => (NAMES.sites ? NAMES.sites[site] : `time ${time}`),
    site: () => (NAMES.sites ? `site ${site}: ${NAMES.sites[site]}` : `site ${site}`),
  }, numbers = { sequence, time, site };
  return SPOKEN.filter((name) => numbers[name] >= 0).map((name) => words[name]());
}

function unpack(content) {
  if (Array.isArray(content) || content === null || typeof content !== "object") return content;
  if ("f" in content) return new Float32Array(bytes(content.f));
  if ("i" in content) return new Int32Array(bytes(content.i));
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

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
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

// Viridis, which stays ordered for colour-blind readers and in grey.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];

function viridis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const k = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const mixed = VIRIDIS[k].map((from, i) => Math.round(from + (VIRIDIS[k + 1][i] - from) * (place - k)));
  return `rgb(${mixed.join(",")})`;
}
