// Timelines and listings: zoom, move, what is told of a span, what it waited for, and its line.
// Figures with the same data-group show the same part of time, figures with the same data-program
// the same line.
(() => {
  "use strict";
  const groups = new Map(), programs = new Map(), figures = [];
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const program = (name) => {
    if (!programs.has(name)) programs.set(name, { lanes: [], listings: [], line: 0 });
    return programs.get(name);
  };

  for (const figure of document.querySelectorAll("figure.listing")) {
    const own = program(figure.dataset.program);
    own.listings.push(figure);
    const first = figure.querySelector("tr[data-line]");
    if (first) figure.querySelector(".code").scrollTop = first.offsetTop - 90;
    const choose = (event) => {
      const row = event.target.closest("tr[data-line]");
      if (row) chooseLine(own, own.line === +row.dataset.line ? 0 : +row.dataset.line);
    };
    figure.addEventListener("click", choose);
    figure.addEventListener("keydown", (event) => {
      const row = event.target.closest("tr[data-line]");
      if (!row) return;
      const rows = [...figure.querySelectorAll("tr[data-line]")], at = rows.indexOf(row);
      const next = { ArrowDown: rows[at + 1], ArrowUp: rows[at - 1] }[event.key];
      if (next) { event.preventDefault(); next.focus(); }
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(event); }
    });
  }
  for (const figure of document.querySelectorAll("figure.lanes[data-group]")) {
    const low = +figure.dataset.low, high = +figure.dataset.high;
    const group = groups.get(figure.dataset.group) || { low, high, from: low, to: high, figures: [] };
    groups.set(figure.dataset.group, group);
    group.figures.push(begin(figure, group));
  }
  addEventListener("resize", () => figures.forEach(arrow));

  function begin(figure, group) {
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const own = {
      figure, group, data, chosen: null, at: null,
      pictures: [...figure.querySelectorAll(".bar-of > svg")],
      told: figure.querySelector(".told"), detail: figure.querySelector(".detail"),
      across: figure.querySelector(".across"),
      program: figure.dataset.program ? program(figure.dataset.program) : null,
    };
    if (own.program) own.program.lanes.push(own);
    figures.push(own);
    figure.querySelector(".tools").hidden = false;
    figure.querySelector(".tools").addEventListener("click", (event) => act(group, event.target.dataset.do));
    own.pictures.forEach((_, lane) => listen(own, lane));
    return own;
  }

  function listen(own, lane) {
    const { group, told } = own, picture = own.pictures[lane], spans = own.data.lanes[lane];
    let drag = null;
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      return group.from + (event.clientX - box.left) / box.width * (group.to - group.from);
    };
    picture.tabIndex = 0;
    picture.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, from: group.from, moved: false };
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener("pointermove", (event) => {
      if (drag) {
        const width = picture.getBoundingClientRect().width, span = group.to - group.from;
        drag.moved = drag.moved || Math.abs(event.clientX - drag.x) > 3;
        if (drag.moved) show(group, drag.from - (event.clientX - drag.x) / width * span, span);
        return;
      }
      told.textContent = tell(own, lane, at(event), (group.to - group.from) / 400);
    });
    picture.addEventListener("pointerup", (event) => {
      const moved = drag && drag.moved, near = (group.to - group.from) / 100;
      drag = null;
      told.textContent = tell(own, lane, at(event), near);
      if (!moved) choose(own, lane, find(spans, at(event), near));
    });
    picture.addEventListener("pointercancel", () => { drag = null; });
    picture.addEventListener("dblclick", () => act(group, "all"));
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(group, at(event), event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const what = event.shiftKey && step ? (step < 0 ? "left" : "right")
        : { "+": "in", "=": "in", "-": "out", "0": "all" }[event.key];
      if (what) act(group, what);
      else if (step) walk(own, lane, step);
      else if (event.key === "Enter" || event.key === " ") choose(own, lane, here(own, lane));
      else if (event.key === "Escape") choose(own, lane, -1);
      else return;
      event.preventDefault();
    });
  }

  // The number of the span at a time, or of the next one no farther than `near` away; -1 for none.
  function find(spans, time, near) {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][1] < time - near) low = middle + 1; else high = middle;
    }
    const span = spans[low];
    return !span || span[0] > time + near ? -1 : low;
  }
  function tell(own, lane, time, near) {
    const at = find(own.data.lanes[lane], time, near);
    return at < 0 ? `cycle ${number(Math.round(time))}: nothing` : said(own, lane, at);
  }
  function said(own, lane, at) {
    const [start, end, text] = own.data.lanes[lane][at];
    return `${own.data.texts[text]} · from ${number(start)} to ${number(end)} (${number(end - start)})`;
  }
  function here(own, lane) { return own.at && own.at.lane === lane ? own.at.span : -1; }

  // From span to span with the keyboard: told as if the pointer were there.
  function walk(own, lane, step) {
    const spans = own.data.lanes[lane], before = here(own, lane);
    const first = before < 0 ? Math.max(find(spans, own.group.from, 0), 0) : before + step;
    const at = Math.min(Math.max(first, 0), spans.length - 1);
    if (at < 0) return;
    own.at = { lane, span: at };
    const [start, end] = spans[at], wide = own.group.to - own.group.from;
    if (start < own.group.from || end > own.group.to) show(own.group, (start + end - wide) / 2, wide);
    own.told.textContent = said(own, lane, at);
    mark(own, "at", lane, at);
  }
  function mark(own, kind, lane, at) {
    own.pictures.forEach((p) => p.querySelectorAll(`.${kind}`).forEach((e) => e.remove()));
    if (at < 0) return;
    const [start, end] = own.data.lanes[lane][at];
    own.pictures[lane].append(svg("path", { class: kind, d: `M${start} 0H${end}V1H${start}z` }));
  }

  // A span is chosen: its line, what it is, what it waited for.
  function choose(own, lane, at) {
    figures.filter((f) => f !== own && f.chosen).forEach((f) => close(f));
    if (at < 0) { close(own); return; }
    const { data } = own, span = data.lanes[lane][at], [start, end, text, giverLane, giver] = span;
    own.chosen = { lane, at };
    own.at = { lane, span: at };
    own.told.textContent = said(own, lane, at);
    const parts = [element("strong", said(own, lane, at))];
    if (data.names) parts.push(element("p", data.names[lane], "note"));
    if (giverLane !== undefined) {
      const waited = start - (at ? data.lanes[lane][at - 1][1] : 0);
      const from = element("button", data.texts[data.lanes[giverLane][giver][2]]);
      from.addEventListener("click", () => { choose(own, giverLane, giver); own.pictures[giverLane].focus(); });
      const line = element("p", waited > 0 ? `its pipe stood still for ${number(waited)} cycles; it starts after ` : "starts after ");
      line.append(from, ` on ${data.names[giverLane]}`);
      parts.push(line);
    }
    const details = data.details && data.of && data.of[text] >= 0 ? data.details[data.of[text]] : [];
    details.forEach((line, i) => parts.push(i ? element("p", line) : element("code", line)));
    own.detail.replaceChildren(...parts);
    own.detail.hidden = false;
    mark(own, "chosen", lane, at);
    arrow(own);
    if (own.program) chooseLine(own.program, data.lines ? data.lines[text] : 0, own);
  }
  function close(own) {
    own.chosen = null;
    own.detail.hidden = true;
    mark(own, "chosen", 0, -1);
    arrow(own);
  }

  // The arrow from the end of what a span waited for to its start.
  function arrow(own) {
    own.figure.querySelectorAll(":scope > .arrow").forEach((e) => e.remove());
    if (!own.chosen) return;
    const { lane, at } = own.chosen, [start, , , giverLane, giver] = own.data.lanes[lane][at];
    if (giverLane === undefined) return;
    const around = own.figure.getBoundingClientRect();
    const place = (number, time) => {
      const box = own.pictures[number].getBoundingClientRect(), { from, to } = own.group;
      const part = Math.min(Math.max((time - from) / (to - from), 0), 1);
      return [box.left - around.left + part * box.width, box.top - around.top + box.height / 2];
    };
    const [x, y] = place(giverLane, own.data.lanes[giverLane][giver][1]), [u, v] = place(lane, start);
    const made = svg("svg", { class: "arrow", width: around.width, height: around.height });
    const bend = Math.max(Math.abs(u - x) / 2, 12);
    made.append(svg("path", { d: `M${x} ${y}C${x + bend} ${y} ${u - bend} ${v} ${u} ${v}` }));
    made.append(svg("path", { d: `M${u - 7} ${v - 4}L${u} ${v}L${u - 7} ${v + 4}` }));
    own.figure.append(made);
  }

  // A line is chosen: its row, and its spans in all figures of the program.
  function chooseLine(own, line, from) {
    own.line = line;
    for (const listing of own.listings) {
      listing.querySelectorAll("tr.chosen").forEach((row) => row.classList.remove("chosen"));
      const row = line && listing.querySelector(`tr[data-line="${line}"]`);
      if (!row) continue;
      row.classList.add("chosen");
      const box = listing.querySelector(".code");
      if (from) box.scrollTop = row.offsetTop - box.clientHeight / 2;
    }
    for (const figure of own.lanes) {
      if (!from && figure.chosen) close(figure);
      let count = 0, first = Infinity, last = 0;
      figure.pictures.forEach((picture, lane) => {
        picture.querySelectorAll(".of-line").forEach((e) => e.remove());
        const spans = line ? figure.data.lanes[lane].filter((s) => figure.data.lines && figure.data.lines[s[2]] === line) : [];
        picture.classList.toggle("dim", Boolean(line));
        if (!spans.length) return;
        count += spans.length;
        first = Math.min(first, spans[0][0]);
        last = Math.max(last, spans[spans.length - 1][1]);
        const d = spans.map(([a, b]) => `M${a} 0H${b}V1H${a}z`).join("");
        picture.append(svg("path", { class: "of-line", d }));
      });
      if (line && figure !== from)
        figure.told.textContent = count ? `line ${line}: ${number(count)} spans from ${number(first)} to ${number(last)}` : `line ${line}: nothing here`;
    }
  }

  function act(group, what) {
    const span = group.to - group.from, middle = (group.from + group.to) / 2;
    if (what === "in") zoom(group, middle, 0.5);
    if (what === "out") zoom(group, middle, 2);
    if (what === "left") show(group, group.from - span / 4, span);
    if (what === "right") show(group, group.from + span / 4, span);
    if (what === "all") show(group, group.low, group.high - group.low);
  }

  function zoom(group, at, by) {
    const whole = group.high - group.low;
    const span = Math.min(Math.max((group.to - group.from) * by, Math.min(16, whole)), whole);
    show(group, at - (at - group.from) / (group.to - group.from) * span, span);
  }

  function show(group, from, span) {
    group.from = Math.min(Math.max(from, group.low), group.high - span);
    group.to = group.from + span;
    for (const figure of group.figures) {
      for (const picture of figure.pictures)
        picture.setAttribute("viewBox", `${group.from} 0 ${span} 1`);
      ticks(figure.across, group);
      arrow(figure);
    }
  }

  function ticks(across, group) {
    const span = group.to - group.from;
    const least = span / 4, power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max([1, 2, 5, 10].find((s) => s * power >= least) * power, 1);
    const found = [];
    for (let value = Math.ceil(group.from / step) * step; value <= group.to; value += step) {
      const part = (value - group.from) / span;
      const label = element("span", number(value), "tick" + (part < 0.02 ? " first" : part > 0.98 ? " last" : ""));
      label.style.left = `${100 * part}%`;
      found.push(label);
    }
    across.replaceChildren(...found);
  }
})();
