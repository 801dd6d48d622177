// Tables are sorted by a click on a name and filtered by words; marks of charts are told of with the
// arrow keys as well as with the pointer; a link into a section that is folded opens it.
(() => {
  "use strict";
  const UNITS = { KiB: 1024, MiB: 1048576, GiB: 1073741824, k: 1e3, M: 1e6, G: 1e9 };
  const value = (text) => {
    const found = text.trim().match(/^[^\d\s-]?\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([A-Za-z]*)/);
    return found ? parseFloat(found[1].replaceAll(",", "")) * (UNITS[found[2]] || 1) : NaN;
  };
  const order = (a, b) => {
    const x = value(a), y = value(b);
    if (!isNaN(x) && !isNaN(y)) return x - y;
    return isNaN(x) !== isNaN(y) ? (isNaN(x) ? 1 : -1) : a.localeCompare(b);
  };

  for (const table of document.querySelectorAll(".scroll:not(.code) > table")) {
    const body = table.tBodies[0], rows = body ? [...body.rows] : [];
    if (rows.length < 3 || !table.tHead) continue;
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.append(...cell.childNodes);
      button.title = "sort";
      cell.append(button);
      button.addEventListener("click", () => sort(table, rows, cell, column));
    });
    if (rows.length > 12) table.parentElement.before(filter(rows));
  }

  function sort(table, rows, cell, column) {
    const way = { none: "ascending", ascending: "descending", descending: "none" }[cell.ariaSort || "none"];
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    if (way !== "none") cell.setAttribute("aria-sort", way);
    const text = (row) => row.cells[column] ? row.cells[column].textContent : "";
    const by = way === "descending" ? -1 : 1;
    const sorted = way === "none" ? rows : [...rows].sort((a, b) => by * order(text(a), text(b)));
    table.tBodies[0].append(...sorted);
  }

  function filter(rows) {
    const around = document.createElement("p"), field = document.createElement("input");
    const count = document.createElement("span");
    around.className = "filter";
    field.type = "search";
    field.placeholder = "filter rows";
    field.ariaLabel = "filter rows";
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
    around.append(field, count);
    return around;
  }

  for (const chart of document.querySelectorAll("figure.chart")) {
    const area = chart.querySelector(".area");
    const marks = [...area.querySelectorAll(".point[title]"), ...area.querySelectorAll("svg title")]
      .map((e) => e.matches("title") ? [e.parentElement, e.textContent] : [e, e.title]);
    if (!marks.length) continue;
    const told = document.createElement("p");
    told.className = "told";
    told.setAttribute("aria-live", "polite");
    chart.append(told);
    area.tabIndex = 0;
    let at = -1;
    const tell = (next) => {
      if (marks[at]) marks[at][0].classList.remove("at");
      at = (next + marks.length) % marks.length;
      marks[at][0].classList.add("at");
      told.textContent = marks[at][1];
    };
    area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); tell(at < 0 ? 0 : at + step); }
    });
    area.addEventListener("pointerover", (event) => {
      const found = marks.findIndex(([mark]) => mark === event.target);
      if (found >= 0) tell(found);
    });
  }

  // Parallel coordinates: a range of an axis is chosen by dragging along it; a click on an axis
  // without dragging takes it back. Lines that are outside of any range give way.
  for (const chart of document.querySelectorAll("figure.chart")) {
    const threads = [...chart.querySelectorAll("path.thread")];
    if (!threads.length) continue;
    const area = chart.querySelector(".area"), told = chart.querySelector(".told");
    const held = threads.map((path) => path.dataset.at.split(" ").map(Number));
    const count = held[0].length, ranges = new Map();
    const show = () => {
      area.querySelectorAll(".brush").forEach((e) => e.remove());
      for (const [axis, [low, high]] of ranges) {
        const box = document.createElement("span");
        box.className = "brush";
        box.style.cssText = `left:${100 * (axis + 0.5) / count}%;bottom:${100 * low}%;height:${100 * (high - low)}%`;
        area.append(box);
      }
      let inside = 0;
      threads.forEach((path, at) => {
        const out = [...ranges].some(([axis, [low, high]]) => held[at][axis] < low || held[at][axis] > high);
        path.classList.toggle("out", out);
        inside += !out;
      });
      told.textContent = ranges.size ? `${inside} of ${threads.length} points` : "";
    };
    let drag = null;
    const place = (event) => {
      const box = area.getBoundingClientRect();
      const axis = Math.min(Math.max(Math.floor((event.clientX - box.left) / box.width * count), 0), count - 1);
      return [axis, Math.min(Math.max(1 - (event.clientY - box.top) / box.height, 0), 1)];
    };
    area.addEventListener("pointerdown", (event) => { drag = place(event); });
    area.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [, to] = place(event), [axis, from] = drag;
      if (Math.abs(to - from) > 0.02) { ranges.set(axis, [Math.min(from, to), Math.max(from, to)]); show(); }
    });
    addEventListener("pointerup", (event) => {
      if (drag && Math.abs(place(event)[1] - drag[1]) <= 0.02 && ranges.delete(drag[0])) show();
      drag = null;
    });
  }

  const open = () => {
    const found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = found && found.querySelector(":scope > details");
    if (folded) { folded.open = true; found.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  open();
})();
