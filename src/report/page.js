"use strict";
document.documentElement.classList.add("js");
const NS = "http://www.w3.org/2000/svg";
const all = (what, within = document) => [...within.querySelectorAll(what)];
const text = x => Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en").replace(/,/g, "\u202f") : String(+x.toPrecision(3));

// A plot says the values at the pointer or at the place that the arrow keys choose; a click on a name hides its line.
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
  let at = right;
  const show = x => {
    at = Math.min(right, Math.max(left, x));
    cross.setAttribute("d", `M${at} ${top}V${bottom}`);
    const rows = lines.filter(l => l.points.length && !l.path.classList.contains("off")).map(l => {
      const p = l.points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      return [l.name, y0 + (bottom - p[1]) / (bottom - top) * (y1 - y0)];
    }).sort((a, b) => b[1] - a[1]).slice(0, 12);
    box.textContent = "";
    for (const row of [[svg.dataset.x, x0 + (at - left) / (right - left) * (x1 - x0)], ...rows]) {
      const line = document.createElement("div");
      line.textContent = row[0] + ": " + text(row[1]);
      box.append(line);
    }
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width, half = at > (left + right) / 2;
    box.style.left = half ? "" : at * scale + 12 + "px";
    box.style.right = half ? (svg.viewBox.baseVal.width - at) * scale + 12 + "px" : "";
    box.hidden = false;
  };
  const hide = () => { box.hidden = true; cross.removeAttribute("d"); };
  svg.addEventListener("pointermove", e => show((e.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width * svg.viewBox.baseVal.width));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", e => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
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
