"use strict";

// The leaderboard's picture: a point for each configuration on a canvas, the front that nothing beats, and a line that
// one drags (or types) as the objective. Table and picture leave out the same; the address has the whole state.
const board = document.getElementById("board");
const INK = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7f7f7f"]; // told apart by the colour-blind
const EDGE = { left: 64, right: 14, top: 12, bottom: 44 };
const see = { points: [], x: null, y: null, hidden: new Set(), bound: null, over: null, groups: [] };
const at = (name) => new URLSearchParams(location.search).get(name);

function remember(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) if (value === null || value === "") query.delete(name); else query.set(name, value);
  history.replaceState(null, "", `${location.pathname}?${query}`);
}

const short = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
const kept = (point) => !see.hidden.has(point.colour) && (see.bound === null || (see.x.higher ? point.x >= see.bound : point.x <= see.bound));

// Both axes are logarithmic where every value is positive: latencies and rates are.
function scale(values, low, high) {
  const least = Math.min(...values), most = Math.max(...values), log = least > 0;
  const [a, b] = log ? [Math.log10(least) - 0.06, Math.log10(most) + 0.06] : [least - 0.05 * (most - least || 1), most + 0.05 * (most - least || 1)];
  const to = (value) => low + ((log ? Math.log10(value) : value) - a) / (b - a) * (high - low);
  const back = (pixel) => { const inner = a + (pixel - low) / (high - low) * (b - a); return log ? 10 ** inner : inner; };
  const ticks = [];
  if (log) for (let e = Math.floor(a); e <= b; e++) { for (const m of b - a > 2.5 ? [1] : b - a > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7]) if (m * 10 ** e >= 10 ** a && m * 10 ** e <= 10 ** b) ticks.push(m * 10 ** e); }
  else { const step = 10 ** Math.floor(Math.log10(b - a)) / 2; for (let v = Math.ceil(a / step) * step; v <= b; v += step) ticks.push(v); }
  return { to, back, ticks };
}

function drawBoard() {
  const width = board.clientWidth, height = board.clientHeight, ratio = devicePixelRatio || 1, pen = board.getContext("2d");
  board.width = width * ratio; board.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
  pen.clearRect(0, 0, width, height);
  if (!see.points.length) return;
  const withEnds = (axis) => see.points.flatMap((point) => [point[axis], ...(point[`${axis}_interval`] || [])]).filter((value) => value > 0 || see.points.some((point) => point[axis] <= 0));
  const sx = scale(spread(withEnds("x"), see.bound), EDGE.left, width - EDGE.right), sy = scale(withEnds("y"), height - EDGE.bottom, EDGE.top);
  Object.assign(see, { sx, sy });
  pen.font = "12px system-ui, sans-serif"; pen.strokeStyle = line; pen.fillStyle = soft; pen.lineWidth = 1;
  pen.textAlign = "center"; pen.textBaseline = "top";
  let last = -99;
  for (const tick of sx.ticks) { const px = sx.to(tick); stroke(pen, [[px, EDGE.top], [px, height - EDGE.bottom]]); if (px - last > 44) { pen.fillText(short(tick), px, height - EDGE.bottom + 5); last = px; } }
  pen.fillText(`${see.x.name}${see.x.unit ? `, ${see.x.unit}` : ""}`, (EDGE.left + width - EDGE.right) / 2, height - 17);
  pen.textAlign = "right"; pen.textBaseline = "middle";
  last = height + 99;
  for (const tick of sy.ticks) { const py = sy.to(tick); stroke(pen, [[EDGE.left, py], [width - EDGE.right, py]]); if (last - py > 18) { pen.fillText(short(tick), EDGE.left - 6, py); last = py; } }
  pen.save(); pen.translate(10, (height - EDGE.bottom) / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(`${see.y.name}${see.y.unit ? `, ${see.y.unit}` : ""}`, 0, 0); pen.restore();
  pen.lineWidth = 1.5; pen.strokeStyle = ink;
  for (const group of see.groups) stroke(pen, see.points.filter((point) => point.front && point.group === group && !see.hidden.has(point.colour)).sort((a, b) => a.x - b.x).map((point) => [sx.to(point.x), sy.to(point.y)]));
  for (const point of see.points) {
    if (see.hidden.has(point.colour)) continue;
    const px = sx.to(point.x), py = sy.to(point.y);
    pen.globalAlpha = kept(point) ? 1 : 0.2; pen.fillStyle = pen.strokeStyle = point.ink; pen.lineWidth = 1;
    if (point.x_interval) stroke(pen, point.x_interval.map((end) => [sx.to(end), py]));
    if (point.y_interval) stroke(pen, point.y_interval.map((end) => [px, sy.to(end)]));
    pen.beginPath(); pen.arc(px, py, point === see.over ? 7 : point.front ? 5 : 3.5, 0, 7); pen.fill();
    if (point === see.over) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.stroke(); }
  }
  pen.globalAlpha = 1;
  if (see.bound !== null) { pen.strokeStyle = pen.fillStyle = style.getPropertyValue("--bad"); pen.lineWidth = 2; const px = sx.to(see.bound); stroke(pen, [[px, EDGE.top], [px, height - EDGE.bottom]]); pen.textBaseline = "top"; pen.textAlign = px > width - 150 ? "right" : "left"; pen.fillText(` ${see.x.name} ${see.x.higher ? "≥" : "≤"} ${short(see.bound)} `, px, EDGE.top); }
}

const spread = (values, bound) => bound === null || (bound <= 0 && Math.min(...values) > 0) ? values : [...values, bound];

function stroke(pen, places) {
  pen.beginPath();
  for (const [x, y] of places) pen.lineTo(x, y);
  pen.stroke();
}

// What the picture leaves out, the table does as well; and what each device's best is within the line.
function filterBoard() {
  const by = new Map(see.points.map((point) => [point.run, point])), shown = see.points.filter(kept);
  for (const row of document.querySelectorAll("tr[data-run]")) { const point = by.get(row.dataset.run); row.hidden = Boolean(point && !kept(point)); const box = row.querySelector("input[name=run]"); if (row.hidden && box) box.checked = false; }
  countChosen(); // what is not seen is not compared
  board.hidden = !see.points.length;
  const text = document.getElementById("board-told");
  text.textContent = !see.points.length ? "No valid run that matches has both figures." : `${shown.length} of ${see.points.length} configurations${see.bound === null ? "" : ` keep ${see.x.name} ${see.x.higher ? "≥" : "≤"} ${short(see.bound)}`}${see.left_out ? `; ${see.left_out} older ones are not drawn` : ""}.`;
  const best = new Map(), better = (a, b) => see.y.higher ? a.y > b.y : a.y < b.y;
  for (const point of shown) { const key = `${point.group}\n${point.device}`; if (!best.has(key) || better(point, best.get(key))) best.set(key, point); }
  const list = [...best.values()].sort((a, b) => a.group.localeCompare(b.group) || (better(a, b) ? -1 : 1)), most = new Map();
  for (const point of list) most.set(point.group, Math.max(most.get(point.group) || 0, point.y));
  const bars = document.getElementById("board-bars");
  bars.replaceChildren(...list.slice(0, 30).map((point) => {
    const item = element("li", null), bar = element("span", null, { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, 100 * point.y / (most.get(point.group) || 1))}%`;
    item.append(element("a", point.device, { href: `/inferbench/run/${encodeURIComponent(point.run)}` }), document.createTextNode(` ${short(point.y)} ${see.y.unit}, ${point.model}, ${point.load} (${point.group})`), bar);
    return item;
  }));
  drawBoard();
}

function setBound(value) {
  see.bound = value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(3));
  document.getElementById("board-bound").value = see.bound ?? "";
  remember({ bound: see.bound === null ? null : String(see.bound) });
  filterBoard();
}

function legend() {
  const names = [...new Set(see.points.map((point) => point.colour))].sort();
  for (const point of see.points) point.ink = INK[Math.min(names.indexOf(point.colour), INK.length - 1)];
  const off = new Set((at("off") || "").split("|").filter(Boolean));
  see.hidden = new Set(names.filter((name) => off.has(name)));
  document.getElementById("board-legend").replaceChildren(...names.slice(0, 24).map((name, i) => {
    const label = element("label", null, { class: "check" }), box = element("input", null, { type: "checkbox" }), dot = element("span", null, { class: "dot", "aria-hidden": "true" });
    box.checked = !see.hidden.has(name);
    dot.style.background = INK[Math.min(i, INK.length - 1)];
    box.addEventListener("change", () => { if (box.checked) see.hidden.delete(name); else see.hidden.add(name); remember({ off: [...see.hidden].join("|") }); filterBoard(); });
    label.append(box, dot, document.createTextNode(name));
    return label;
  }));
}

async function loadBoard() {
  const told = document.getElementById("board-told"), query = new URLSearchParams({ q: board.dataset.query });
  for (const select of document.querySelectorAll("select[data-board]")) query.set(select.dataset.board, select.value);
  document.getElementById("board-csv").href = `/inferbench/api/points?${query}&format=csv`;
  try {
    const answer = await fetch(`/inferbench/api/points?${query}`, { credentials: "same-origin" }), body = await answer.json();
    if (!answer.ok) throw new Error(Array.isArray(body.detail) ? body.detail.map((of) => of.msg).join("; ") : body.detail);
    see.points = body.rows.map((row) => Object.fromEntries(body.columns.map((name, i) => [name, row[i]])));
    Object.assign(see, { x: body.x, y: body.y, left_out: body.left_out, groups: [...new Set(see.points.map((point) => point.group))] });
    document.getElementById("board-made").textContent = `Each point is the newest valid run of a configuration on a device, at the load that it was offered. Across: ${body.x.name}, ${body.x.formula}. Up: ${body.y.name}, ${body.y.formula}. Whiskers are 95% intervals within the run, where it has them. The line joins, within each task and data set, what no other configuration beats in one without being worse in the other; what an open loop carries is what it was offered.`;
    legend();
    const bound = Number(at("bound"));
    setBound(at("bound") && Number.isFinite(bound) ? bound : null);
    board.dataset.ready = "yes";
  } catch (problem) { told.textContent = `The picture can't be drawn: ${problem.message}`; }
}

function nearest(event) {
  const box = board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  let found = null, least = 144;
  for (const point of see.points) { if (see.hidden.has(point.colour)) continue; const d = (see.sx.to(point.x) - px) ** 2 + (see.sy.to(point.y) - py) ** 2; if (d < least) { least = d; found = point; } }
  return { found, px };
}

if (board) {
  let dragging = false;
  board.addEventListener("pointerdown", (event) => { if (!see.sx) return; const { px } = nearest(event); dragging = see.bound !== null && Math.abs(see.sx.to(see.bound) - px) < 9; if (dragging) board.setPointerCapture(event.pointerId); });
  board.addEventListener("pointermove", (event) => {
    if (!see.sx) return;
    const { found, px } = nearest(event);
    if (dragging) { setBound(see.sx.back(px)); return; }
    board.style.cursor = see.bound !== null && Math.abs(see.sx.to(see.bound) - px) < 9 ? "ew-resize" : found ? "pointer" : "default";
    if (found !== see.over) { see.over = found; document.getElementById("board-point").textContent = found ? `${found.model}, ${found.colour}, ${found.device}, ${found.load}: ${see.x.name} ${short(found.x)}, ${see.y.name} ${short(found.y)}${found.front ? "; nothing beats it in both" : ""}.` : "\u00a0"; drawBoard(); }
  });
  board.addEventListener("pointerup", (event) => { if (!dragging && see.sx) { const { found } = nearest(event); if (found) location.assign(`/inferbench/run/${encodeURIComponent(found.run)}`); } dragging = false; });
  for (const select of document.querySelectorAll("select[data-board]")) { const given = at(select.dataset.board); if (given && [...select.options].some((of) => of.value === given)) select.value = given; select.addEventListener("change", () => { remember({ [select.dataset.board]: select.value, bound: null, off: null }); loadBoard(); }); }
  document.getElementById("board-bound").addEventListener("input", (event) => setBound(event.target.value === "" ? null : Number(event.target.value)));
  document.getElementById("board-png").addEventListener("click", () => { const link = element("a", null, { href: board.toDataURL("image/png"), download: "leaderboard.png" }); link.click(); });
  addEventListener("resize", drawBoard);
  loadBoard();
}
