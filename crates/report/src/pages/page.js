"use strict";
document.documentElement.classList.add("js");
const NS = "http://www.w3.org/2000/svg";
const all = (what, within = document) => [...within.querySelectorAll(what)];
const text = x => Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en").replace(/,/g, "\u202f") : String(+x.toPrecision(3));

// Round numbers within a range, about five of them.
const ticks = (low, high) => {
  const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map(m => m * power).find(m => m >= raw);
  return Array.from({length: 7}, (_, i) => (Math.ceil(low / step) + i) * step).filter(x => x <= high);
};

// A plot says the values at the pointer or at the place that the arrow keys choose; a click on a name hides its line. A drag, or
// the keys + and -, show a part of the x axis, and a double click, or Escape, shows all of it again.
for (const svg of all("svg[data-plot]")) {
  const [x0, x1, y0, y1, left, right, top, bottom] = svg.dataset.plot.split(" ").map(Number);
  const lines = all("path.line[data-name]", svg).map(path => ({
    name: path.dataset.name, path, points: (path.getAttribute("d").match(/[-\d.]+ [-\d.]+/g) || []).map(p => p.split(" ").map(Number))}));
  if (!lines.length) continue;
  const box = document.createElement("div"), cross = document.createElementNS(NS, "path");
  box.className = "values"; box.hidden = true; cross.setAttribute("class", "cross");
  svg.append(cross);
  const holder = document.createElement("div");
  holder.className = "plot"; svg.replaceWith(holder); holder.append(svg, box);
  svg.setAttribute("tabindex", "0"); svg.setAttribute("role", "group");
  // The part of the drawn plot that is shown, and where it is shown.
  let at = right, [a, b, c, d] = [left, right, top, bottom], from = null;
  const fx = x => left + (x - a) / (b - a) * (right - left), fy = y => top + (y - c) / (d - c) * (bottom - top);
  const value = x => x0 + (x - left) / (right - left) * (x1 - x0), height = y => y0 + (bottom - y) / (bottom - top) * (y1 - y0);
  const drawn = all("path.line,path.band,path.mark,path.rule,circle.dot", svg).map(e => [e, e.getAttribute("d"), +e.getAttribute("cx"), +e.getAttribute("cy")]);
  const axes = all(".grid,.tick", svg).filter(e => e.textContent !== svg.dataset.x), clip = document.createElementNS(NS, "clipPath"), part = document.createElementNS(NS, "rect");
  const set = (e, values) => { for (const name in values) e.setAttribute(name, values[name]); return e; };
  const add = (name, values, words = "") => { const e = set(document.createElementNS(NS, name), values); e.textContent = words; cross.before(e); added.push(e); };
  const added = [];
  clip.id = "clip" + all("clipPath").length; clip.append(set(part, {x: left, y: 0, width: right - left, height: bottom + 1})); svg.prepend(clip);
  const zoom = (low, high) => {
    const is = high - low < right - left - 0.5;
    [a, b] = is ? [low, high] : [left, right];
    const ys = is ? lines.filter(l => !l.path.classList.contains("off")).flatMap(l => l.points).filter(p => p[0] >= a && p[0] <= b).map(p => p[1]) : [];
    [c, d] = ys.length ? [Math.min(...ys) - 4, Math.max(...ys) + 4] : [top, bottom];
    for (const [e, path, x, y] of drawn) {
      e.setAttribute("clip-path", is ? `url(#${clip.id})` : "none");
      if (path === null) set(e, {cx: fx(x), cy: fy(y)});
      else if (e.matches(".mark")) e.setAttribute("d", path.replace(/M([-\d.]+)/, (_, x) => "M" + fx(+x)));
      else if (e.matches(".rule")) e.setAttribute("d", path.replace(/ ([-\d.]+)H/, (_, y) => ` ${fy(+y)}H`));
      else e.setAttribute("d", path.replace(/([-\d.]+) ([-\d.]+)/g, (_, x, y) => fx(+x).toFixed(1) + " " + fy(+y).toFixed(1)));
    }
    for (const e of added.splice(0)) e.remove();
    for (const e of axes) e.style.display = is ? "none" : "";
    if (!is) return;
    for (const v of ticks(value(a), value(b))) add("text", {class: "tick", x: fx(left + (v - x0) / (x1 - x0) * (right - left)), y: bottom + 16, "text-anchor": "middle"}, text(v));
    for (const v of ticks(height(d), height(c))) add("text", {class: "tick", x: left - 6, y: fy(bottom - (v - y0) / (y1 - y0) * (bottom - top)) + 4, "text-anchor": "end"}, text(v));
  };
  const show = x => {
    at = Math.min(right, Math.max(left, x));
    const place = a + (at - left) / (right - left) * (b - a);
    cross.setAttribute("d", from === null ? `M${at} ${top}V${bottom}` : `M${from} ${top}V${bottom}H${at}V${top}Z`);
    const rows = lines.filter(l => l.points.length && !l.path.classList.contains("off")).map(l => {
      const p = l.points.reduce((a, b) => Math.abs(b[0] - place) < Math.abs(a[0] - place) ? b : a);
      return [l.name, height(p[1])];
    }).sort((a, b) => b[1] - a[1]).slice(0, 12);
    box.textContent = "";
    for (const row of [[svg.dataset.x, value(place)], ...rows]) {
      const line = document.createElement("div");
      line.textContent = row[0] + ": " + text(row[1]);
      box.append(line);
    }
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width, half = at > (left + right) / 2;
    box.style.left = half ? "" : at * scale + 12 + "px";
    box.style.right = half ? (svg.viewBox.baseVal.width - at) * scale + 12 + "px" : "";
    box.hidden = false;
  };
  const hide = () => { box.hidden = true; from = null; cross.removeAttribute("d"); };
  const pointed = e => (e.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width * svg.viewBox.baseVal.width;
  svg.addEventListener("pointermove", e => show(pointed(e)));
  svg.addEventListener("pointerdown", e => { const x = pointed(e); if (e.pointerType !== "touch" && x >= left && x <= right) from = x; });
  svg.addEventListener("pointerup", () => {
    const [low, high] = [Math.min(from, at), Math.max(from, at)], is = from !== null && high - low > 4, scale = (b - a) / (right - left), start = a;
    from = null;
    if (is) { zoom(start + (low - left) * scale, start + (high - left) * scale); show(at); }
  });
  svg.addEventListener("dblclick", () => zoom(left, right));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", e => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    const wide = {"+": 0.25, "-": 1, Escape: Infinity}[e.key];
    if (wide && e.target === svg) {
      const centre = a + (at - left) / (right - left) * (b - a), low = Math.max(left, centre - (b - a) * wide), high = Math.min(right, centre + (b - a) * wide);
      zoom(low, high); show(at); e.preventDefault();
    }
    if (by && e.target === svg) { show(at + by * (right - left) / 100); e.preventDefault(); }
  });
  for (const end of all("text.end", svg)) {
    const line = lines.find(l => l.name === end.dataset.of);
    if (!line) continue;
    end.setAttribute("tabindex", "0"); end.setAttribute("role", "button"); end.setAttribute("aria-pressed", "true");
    const turn = () => {
      const off = line.path.classList.toggle("off");
      end.classList.toggle("off", off); end.setAttribute("aria-pressed", String(!off));
      const band = line.path.previousElementSibling;
      if (band && band.classList.contains("band")) band.classList.toggle("off", off);
    };
    end.addEventListener("click", turn);
    end.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { turn(); e.preventDefault(); } });
  }
}

// Of several pictures of one thing the reader chooses one; without scripts all of them are there.
for (const choice of all("[data-choice]")) {
  const parts = all(":scope > [data-part]", choice), select = document.createElement("select");
  if (parts.length < 2) continue;
  select.setAttribute("aria-label", choice.dataset.choice);
  parts.forEach((part, i) => { select.add(new Option(part.dataset.part, i)); });
  const turn = () => parts.forEach((part, i) => { part.hidden = i !== +select.value; });
  select.addEventListener("change", turn);
  choice.prepend(select); turn();
}

// A table sorts by the column whose head is pressed, and shows the rows that have every word of the search.
for (const table of all("table.sorts")) {
  const body = table.tBodies[0], heads = all("th", table);
  const key = (row, i) => { const cell = row.cells[i], x = cell.dataset.v; return x === undefined ? cell.textContent : x === "" ? NaN : +x; };
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.textContent = head.textContent; head.textContent = ""; head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1, rows = [...body.rows].map(row => [key(row, i), row]);
      rows.sort(([a], [b]) => typeof a === "string" || typeof b === "string" ? sign * String(a).localeCompare(String(b)) : (isNaN(a) - isNaN(b)) || sign * (a - b));
      body.append(...rows.map(row => row[1]));
    });
  });
  const search = document.createElement("input"), found = document.createElement("span");
  search.type = "search"; search.placeholder = "show the trials that have these words"; search.setAttribute("aria-label", search.placeholder);
  found.className = "muted"; found.setAttribute("aria-live", "polite");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    for (const row of body.rows) {
      const said = row.textContent.toLowerCase();
      row.hidden = !words.every(word => said.includes(word));
      n += !row.hidden;
    }
    found.textContent = words.length ? " " + n + " shown" : "";
  });
  table.parentElement.before(search, found);
}

// The recorded episode: one picture has all frames, and the canvas shows a part of it.
for (const play of all("[data-frames]")) {
  const {frames, columns, width, height, ms} = Object.fromEntries(Object.entries(play.dataset).map(([k, v]) => [k, +v]));
  const sheet = play.querySelector("img"), slider = play.querySelector("input"), button = play.querySelector("button");
  const canvas = document.createElement("canvas");
  canvas.width = width; canvas.height = height; canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", sheet.alt);
  sheet.parentElement.replaceWith(canvas);
  let runs = !matchMedia("(prefers-reduced-motion:reduce)").matches;
  const draw = () => { const i = +slider.value; canvas.getContext("2d").drawImage(sheet, i % columns * width, Math.floor(i / columns) * height, width, height, 0, 0, width, height); };
  const say = () => { button.textContent = runs ? "stop" : "play"; };
  slider.addEventListener("input", () => { runs = false; say(); draw(); });
  button.addEventListener("click", () => { runs = !runs; say(); });
  if (sheet.complete) draw(); else sheet.addEventListener("load", draw);
  setInterval(() => { if (runs && !document.hidden) { slider.value = (+slider.value + 1) % frames; draw(); } }, ms);
  say();
}

// On paper every fold is open.
addEventListener("beforeprint", () => all("details").forEach(fold => { fold.open = true; }));
