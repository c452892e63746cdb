// What a browser finds wrong with a page, as sentences: run in the page by tests/test_pages.py.

const wide = document.documentElement.clientWidth, found = [];
const box = (element) => element.getBoundingClientRect();
const shown = (element) => element.checkVisibility() && box(element).width > 0 && !element.closest(".skip, #tip");
const called = (element) => `${element.tagName.toLowerCase()}.${element.className} "${(element.textContent || "").trim().slice(0, 40)}"`;
const scrolls = (element) => element.closest(".scroll");

if (document.documentElement.scrollWidth > wide) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);

for (const element of document.querySelectorAll("body *")) {
  if (!shown(element) || scrolls(element)) continue;
  const { left, right } = box(element);
  if (left < -1 || right > wide + 1) found.push(`beyond the edge: ${called(element)}`);
  const clips = getComputedStyle(element).overflowX !== "visible";
  if (clips && element.scrollWidth > element.clientWidth + 1) found.push(`cut: ${called(element)}`);
}

for (const row of document.querySelectorAll("tbody tr")) {
  if (shown(row) && box(row).height > 150) found.push(`a row of ${Math.round(box(row).height)} px: ${called(row)}`);
}

// Blocks that follow each other, and words beside each other.
const apart = ["main > section", "section > *", "figure > *", ".controls > *", "nav li", ".boxes > *", ".ranges > .row",
  ".row > *", "tr > *", ".pair > *"];
for (const which of apart) {
  const groups = new Map();
  for (const element of document.querySelectorAll(which)) {
    if (shown(element)) groups.set(element.parentNode, [...(groups.get(element.parentNode) || []), element]);
  }
  for (const group of groups.values()) {
    const boxes = group.map(box);
    boxes.slice(1).forEach((two, k) => {
      const one = boxes[k];
      const both = Math.min(one.right, two.right) - Math.max(one.left, two.left);
      const over = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
      if (both > 1 && over > 1) found.push(`overlap: ${called(group[k])} and ${called(group[k + 1])}`);
    });
  }
}

// What charts wrote, which no element has.
for (const chart of CHARTS) {
  const name = chart.figure.id, texts = chart.texts;
  texts.forEach((one, k) => {
    if (one.left < 0 || one.right > chart.width + 0.5 || one.top < 0 || one.bottom > chart.tall + 3) found.push(`${name} cuts "${one.words}"`);
    for (const two of texts.slice(k + 1)) {
      if (one.left < two.right && two.left < one.right && one.top < two.bottom - 1 && two.top < one.bottom - 1) {
        found.push(`${name}: "${one.words}" over "${two.words}"`);
      }
    }
  });
}

for (const link of document.querySelectorAll("a[href]")) {
  const href = link.getAttribute("href");
  if (!href.startsWith("#") || !document.getElementById(href.slice(1))) found.push(`a link leads nowhere: ${href}`);
}
const ids = Array.from(document.querySelectorAll("[id]"), (element) => element.id);
ids.filter((id, k) => ids.indexOf(id) < k).forEach((id) => found.push(`two elements are called ${id}`));
for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby]")) {
  const id = element.getAttribute("aria-labelledby") || element.getAttribute("aria-describedby");
  if (!document.getElementById(id)) found.push(`nothing is called ${id}`);
}
return found;
