// Timelines: zoom, move, and what is told of the span below the pointer. Figures with the same
// data-group show the same part of time.
(() => {
  "use strict";
  const groups = new Map();
  for (const figure of document.querySelectorAll("figure.lanes[data-group]")) {
    const low = +figure.dataset.low, high = +figure.dataset.high;
    const known = groups.get(figure.dataset.group);
    const group = known || { low, high, from: low, to: high, figures: [] };
    groups.set(figure.dataset.group, group);
    group.figures.push(begin(figure, group));
  }

  function begin(figure, group) {
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    const pictures = [...figure.querySelectorAll(".bar-of > svg")];
    const told = figure.querySelector(".told");
    figure.querySelector(".tools").hidden = false;
    figure.querySelector(".tools").addEventListener("click", (event) => act(group, event.target.dataset.do));
    pictures.forEach((picture, number) => listen(picture, data, data.lanes[number], told, group));
    return { pictures, across: figure.querySelector(".across") };
  }

  function listen(picture, data, spans, told, group) {
    let drag = null;
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      return group.from + (event.clientX - box.left) / box.width * (group.to - group.from);
    };
    picture.tabIndex = 0;
    picture.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, from: group.from };
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener("pointermove", (event) => {
      if (drag) {
        const width = picture.getBoundingClientRect().width;
        const span = group.to - group.from;
        show(group, drag.from - (event.clientX - drag.x) / width * span, span);
        return;
      }
      told.textContent = tell(data, spans, at(event), (group.to - group.from) / 400);
    });
    const stop = () => { drag = null; };
    picture.addEventListener("pointerup", (event) => {
      stop();
      told.textContent = tell(data, spans, at(event), (group.to - group.from) / 100);
    });
    picture.addEventListener("pointercancel", stop);
    picture.addEventListener("dblclick", () => act(group, "all"));
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(group, at(event), event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    picture.addEventListener("keydown", (event) => {
      const what = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all" };
      if (what[event.key]) { event.preventDefault(); act(group, what[event.key]); }
    });
  }

  // The span at a time, or the next one no farther than `near` away.
  function tell(data, spans, time, near) {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][1] < time - near) low = middle + 1; else high = middle;
    }
    const span = spans[low];
    if (!span || span[0] > time + near) return `cycle ${number(Math.round(time))}: nothing`;
    const [start, end, text] = span;
    return `${data.texts[text]} · from ${number(start)} to ${number(end)} (${number(end - start)})`;
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
    }
  }

  function ticks(across, group) {
    const span = group.to - group.from;
    const least = span / 4, power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max([1, 2, 5, 10].find((s) => s * power >= least) * power, 1);
    const found = [];
    for (let value = Math.ceil(group.from / step) * step; value <= group.to; value += step) {
      const part = (value - group.from) / span;
      const label = document.createElement("span");
      label.className = "tick" + (part < 0.02 ? " first" : part > 0.98 ? " last" : "");
      label.style.left = `${100 * part}%`;
      label.textContent = number(value);
      found.push(label);
    }
    across.replaceChildren(...found);
  }

  function number(value) { return value.toLocaleString("en-US", { maximumFractionDigits: 2 }); }
})();
