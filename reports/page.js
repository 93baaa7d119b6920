"use strict";
// What the page does: its charts, their legends, the order of its tables, the list of its chapters.

const narrow = matchMedia("(max-width: 74.99rem)");
const config = JSON.parse(document.getElementById("config").textContent);

async function drawCharts() {
  for (const figure of document.querySelectorAll("figure.chart")) {
    const { data, panels } = JSON.parse(figure.querySelector("script").textContent);
    const datasets = Object.fromEntries(Object.entries(data).map(([name, columns]) => [name, rowsOf(columns)]));
    const plots = figure.querySelectorAll(".plot");
    const views = [];
    for (const [index, panel] of panels.entries()) {
      views.push(await embed(plots[index], { ...panel, datasets }));
    }
    connect(figure, views);
  }
  document.documentElement.dataset.drawn = "all";
}

function rowsOf(columns) {
  const names = Object.keys(columns);
  const length = names.length ? columns[names[0]].length : 0;
  return Array.from({ length }, (_, index) => Object.fromEntries(names.map((name) => [name, columns[name][index]])));
}

async function embed(plot, specification) {
  const tooltip = { theme: "page", disableDefaultStyle: true };
  const options = { renderer: "svg", actions: false, ast: true, defaultStyle: false, config, tooltip };
  const { view } = await vegaEmbed(plot, specification, options);
  // Names beside bars leave at least half of the width to the bars.
  const limitLabels = () => {
    view.signal("label_limit", Math.max(90, Math.min(300, 0.4 * plot.clientWidth))).resize().runAsync();
  };
  new ResizeObserver(limitLabels).observe(plot);
  return view;
}

// What the mouse is on is picked out in all plots of a figure; a click keeps it so until the next one.
function connect(figure, views) {
  const buttons = figure.querySelectorAll(".legend button");
  let kept = "";
  let shown = "";
  const show = (key) => {
    if (key === shown) return;
    shown = key;
    for (const view of views) view.signal("chosen", key).runAsync();
  };
  const keep = (key) => {
    kept = key === kept ? "" : key;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === kept));
    show(kept);
  };
  for (const button of buttons) {
    button.addEventListener("click", () => keep(button.value));
    button.addEventListener("pointerenter", () => show(button.value));
    button.addEventListener("pointerleave", () => show(kept));
  }
  for (const view of views) {
    view.addEventListener("pointerover", (_, item) => show(item?.datum?.key ?? kept));
    view.addEventListener("pointerout", () => show(kept));
    view.addEventListener("click", (_, item) => keep(item?.datum?.key ?? kept));
  }
}

// A first click on a header sorts upwards, a second one downwards, a third one restores the order.
function makeSortable(table) {
  const rows = [...table.tBodies[0].rows];
  const headers = [...table.querySelectorAll("thead th")];
  markRepeated(rows);
  for (const [column, header] of headers.entries()) {
    header.querySelector("button").addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" }[header.ariaSort] ?? "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      if (next !== "none") header.setAttribute("aria-sort", next);
      const ordered = next === "none" ? rows : sorted(rows, column, next === "descending");
      table.tBodies[0].append(...ordered);
      markRepeated(ordered);
    });
  }
}

const collator = new Intl.Collator("en", { numeric: true });

// Numbers by their value where every cell of the column begins with one; what says nothing comes last either way.
function sorted(rows, column, isDescending) {
  const texts = new Map(rows.map((row) => [row, row.cells[column].textContent.trim()]));
  const isEmpty = (row) => ["", "–"].includes(texts.get(row));
  const told = rows.filter((row) => !isEmpty(row));
  const numbers = new Map(told.map((row) => [row, numberIn(texts.get(row))]));
  const compare = told.some((row) => numbers.get(row) === null)
    ? (one, other) => collator.compare(texts.get(one), texts.get(other))
    : (one, other) => numbers.get(one) - numbers.get(other);
  told.sort((one, other) => (isDescending ? compare(other, one) : compare(one, other)));
  return [...told, ...rows.filter(isEmpty)];
}

// The first number of a text that has nothing but signs before it, such as 4†, < 0.001, 1.2e-7 or 1.10 to 1.39.
function numberIn(text) {
  if (text === "not finite") return Infinity;
  const found = /^(?:n =|[<>≤≥=±~≈\s])*([+−-]?\d[\d,]*(?:\.\d+)?(?:e[+−-]?\d+)?)/.exec(text);
  return found ? Number(found[1].replaceAll(",", "").replaceAll("−", "-")) : null;
}

// A name that stands in the row above as well recedes.
function markRepeated(rows) {
  for (const [index, row] of rows.entries()) {
    const above = rows[index - 1]?.cells[0].textContent;
    row.classList.toggle("repeated", row.cells.length > 1 && row.cells[0].textContent === above);
  }
}

function foldContents() {
  document.querySelector("nav details").open = !narrow.matches;
}

foldContents();
narrow.addEventListener("change", foldContents);
document.querySelectorAll("table").forEach(makeSortable);
drawCharts();
