"use strict";
// What the page does: its figures answer, and the list of its chapters folds up.

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

function foldContents() {
  document.querySelector("nav details").open = !narrow.matches;
}

foldContents();
narrow.addEventListener("change", foldContents);
document.querySelectorAll("figure.chart").forEach(connect);
