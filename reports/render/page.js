"use strict";
// What the page does: its figures answer, its tables are sorted and searched, the list of its chapters folds up.

const narrow = matchMedia("(max-width: 74.99rem)");
const tooltip = document.body.appendChild(document.createElement("dl"));
tooltip.id = "tooltip";

// What the mouse is on is picked out in all of its figure; a click, or a key on a name, keeps it so until the next one.
function connect(figure) {
  const marks = figure.querySelectorAll("[data-key]");
  const names = figure.querySelectorAll("[data-pick]");
  let kept = "";
  const keyAt = (target) =>
    target.closest("[data-pick]")?.dataset.pick ?? target.closest("[data-key]")?.dataset.key.split("\n")[0] ?? kept;
  const show = (key) => {
    for (const mark of marks) mark.classList.toggle("faded", key !== "" && !mark.dataset.key.split("\n").includes(key));
  };
  const keep = (key) => {
    kept = key === kept ? "" : key;
    for (const name of names) name.setAttribute("aria-pressed", String(name.dataset.pick === kept));
    show(kept);
  };
  figure.addEventListener("click", ({ target }) => keep(keyAt(target)));
  figure.addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep(kept);
    if (!["Enter", " "].includes(event.key) || !event.target.dataset.pick) return;
    event.preventDefault();
    keep(event.target.dataset.pick);
  });
  figure.addEventListener("pointerover", (event) => {
    show(keyAt(event.target));
    tell(event);
  });
  figure.addEventListener("pointerleave", () => {
    show(kept);
    tooltip.replaceChildren();
  });
}

// The numbers of a mark, beside the mouse: those of all in its group first.
function tell({ target, clientX, clientY }) {
  const lines = [];
  for (let mark = target.closest("[data-tip]"); mark; mark = mark.parentElement.closest("[data-tip]")) {
    lines.unshift(...mark.dataset.tip.split("\n"));
  }
  const parts = lines.flatMap((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]);
  tooltip.replaceChildren(
    ...parts.map((text, index) => {
      const part = document.createElement(index % 2 ? "dd" : "dt");
      part.textContent = text;
      return part;
    }),
  );
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(clientX + 14, document.documentElement.clientWidth - width - 4))}px`;
  tooltip.style.top = `${clientY + 16 + height < innerHeight ? clientY + 16 : Math.max(4, clientY - height - 12)}px`;
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
  const textOf = (row) => row.cells[column].textContent.trim();
  const isEmpty = (row) => ["", "–"].includes(textOf(row));
  const told = rows.filter((row) => !isEmpty(row));
  const compare = told.some((row) => numberIn(textOf(row)) === null)
    ? (one, other) => collator.compare(textOf(one), textOf(other))
    : (one, other) => numberIn(textOf(one)) - numberIn(textOf(other));
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
    row.classList.toggle("repeated", row.cells[0].textContent === above);
  }
}

// Of a folded table those rows are shown that hold what was typed.
function makeSearchable(field) {
  const rows = [...field.closest("details").querySelectorAll("tbody tr")];
  field.addEventListener("input", () => {
    const sought = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(sought);
  });
}

function foldContents() {
  document.querySelector("nav details").open = !narrow.matches;
}

foldContents();
narrow.addEventListener("change", foldContents);
document.querySelectorAll("table").forEach(makeSortable);
document.querySelectorAll("input[type=search]").forEach(makeSearchable);
document.querySelectorAll("figure.chart").forEach(connect);
