"use strict";

// The leaderboard's picture: a point for each configuration on a canvas, the front that nothing beats, and a line that
// one drags (or types, or moves by keys) as the objective. Table and picture leave out the same; the address has the
// whole state, of which the server makes the table's rows anew.
const board = document.getElementById("board"), handle = document.getElementById("board-handle");
const see = { points: [], x: null, y: null, colour: null, numbers: null, hidden: new Set(), bound: null, over: null, groups: [], best: [], extent: [0, 1] };

// At the end of a list that is cut: how many are not shown.
const moreThan = (most, list, tag) => list.length > most ? [element(tag, `and ${list.length - most} more`, { class: "soft" })] : [];

const kept = (point) => !see.hidden.has(point.colour) && (see.bound === null || (see.x.higher ? point.x >= see.bound : point.x <= see.bound));

function drawBoard() {
  const width = board.clientWidth, height = board.clientHeight, ratio = devicePixelRatio || 1, pen = board.getContext("2d");
  board.width = width * ratio; board.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  handle.hidden = !see.points.length;
  if (!see.points.length) return;
  const style = getComputedStyle(document.documentElement), inks = Object.fromEntries(["ink", "soft", "line", "bad"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
  Object.assign(see, paint(pen, see, width, height, inks, { over: see.over, kept }));
  if (see.bound === null) { pen.strokeStyle = inks.bad; pen.lineWidth = 1.5; pen.setLineDash([5, 4]); stroke(pen, [[linePixel(), EDGE.top], [linePixel(), height - EDGE.bottom]]); pen.setLineDash([]); }
  placeHandle();
}

// The line stands at the edge that nothing is beyond until there is a bound.
const linePixel = () => see.bound !== null ? see.sx.to(see.bound) : see.x.higher ? EDGE.left : board.clientWidth - EDGE.right;

function placeHandle() {
  handle.style.left = `${linePixel()}px`;
  const none = see.x.higher ? see.extent[0] : see.extent[1];
  for (const [name, value] of Object.entries({ valuemin: see.extent[0], valuemax: see.extent[1], valuenow: see.bound ?? none, valuetext: see.bound === null ? `no bound of ${see.x.name} yet` : boundWords(see) })) handle.setAttribute(`aria-${name}`, value);
  handle.title = see.bound === null ? `Drag me: ${see.x.higher ? "at least" : "at most"} so much ${see.x.name}` : "Drag, or arrow keys; Delete takes it away";
}

// What a pixel stands for, within the values that there are; beyond the edge where the line begins there is no bound.
function dragTo(pixel, dragged = false) {
  const [least, most] = see.extent, atLeast = pixel <= see.sx.to(least) + 0.01, atMost = pixel >= see.sx.to(most) - 0.01;
  if (see.x.higher ? atLeast : atMost) setBound(null, dragged);
  else setBound(atLeast ? least : atMost ? most : Number(see.sx.back(pixel).toPrecision(3)), dragged);
}

// What the picture leaves out, the table does as well; and what each device's best is within the line.
function filterBoard() {
  const shown = see.points.filter(kept);
  hideRows();
  board.hidden = !see.points.length;
  const text = document.getElementById("board-told");
  text.textContent = !see.points.length ? "No valid run that matches has both figures." : `${shown.length} of ${see.points.length} configurations${see.bound === null ? "" : ` keep ${boundWords(see)}`}${see.left_out ? `; ${see.left_out} older ones are not drawn` : ""}.`;
  // Of equal heights the one that is better across: else which comes first would decide.
  const best = new Map(), beats = (axis, a, b) => axis.higher ? a > b : a < b, better = (a, b) => a.y === b.y ? beats(see.x, a.x, b.x) : beats(see.y, a.y, b.y);
  for (const point of shown) { const key = `${point.group}\n${point.device}`; if (!best.has(key) || better(point, best.get(key))) best.set(key, point); }
  const list = [...best.values()].sort((a, b) => a.group.localeCompare(b.group) || better(b, a) - better(a, b)), most = new Map();
  for (const point of list) most.set(point.group, Math.max(most.get(point.group) || 0, point.y));
  see.best = list;
  const bars = document.getElementById("board-bars");
  bars.replaceChildren(...list.slice(0, MOST_BARS).map((point) => {
    const item = element("li", null), bar = element("span", null, { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, 100 * point.y / (most.get(point.group) || 1))}%`;
    item.append(element("a", point.device, { href: `/inferbench/run/${encodeURIComponent(point.run)}` }), document.createTextNode(` ${short(point.y)} ${see.y.unit}, ${point.model}, ${point.load} (${point.group})`), bar);
    return item;
  }), ...moreThan(MOST_BARS, list, "li"));
  drawBoard();
}

// Rows of the page that the picture leaves out go at once; what comes in their place is asked of the server.
function hideRows() {
  const by = new Map(see.points.map((point) => [point.run, point]));
  for (const row of document.querySelectorAll("tr[data-run]")) { const point = by.get(row.dataset.run); row.hidden = Boolean(point && !kept(point)); const box = row.querySelector("input[name=run]"); if (row.hidden && box) box.checked = false; }
  countChosen(); // what is not seen is not compared
}

const rowsState = () => JSON.stringify(["x", "y", "bound", "colour", "off"].map(ofAddress));
let rowsTimer = 0, rowsOf = rowsState();
function askRows(wait = 250) {
  clearTimeout(rowsTimer);
  rowsTimer = setTimeout(async () => {
    rememberBound();
    if (rowsOf === rowsState()) return;
    const mine = rowsOf = rowsState(), place = document.getElementById("rows");
    const answer = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    const made = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("rows") : null;
    if (mine !== rowsOf) return; // asked again meanwhile
    if (!made) { document.getElementById("rows-told").textContent = "The table could not be made anew: it has those rows only that were on the page."; rowsOf = ""; return; }
    const ticked = new Set([...place.querySelectorAll("input[name=run]:checked")].map((box) => box.value));
    place.replaceChildren(...made.childNodes);
    for (const box of place.querySelectorAll("input[name=run]")) box.checked = ticked.has(box.value);
    hideRows();
  }, wait);
}

const rememberBound = () => inAddress({ bound: see.bound === null ? null : String(see.bound) });

// While it is dragged the address waits: browsers drop what changes it too often.
function setBound(value, dragged = false) {
  see.bound = value === null || !Number.isFinite(value) ? null : value;
  const field = document.getElementById("board-bound");
  if (document.activeElement !== field) field.value = String(see.bound ?? ""); // else it is being typed
  if (!dragged) rememberBound();
  filterBoard();
  askRows();
}

function legend() {
  const place = document.getElementById("board-legend"), values = see.points.map((point) => point.colour);
  if (see.colour.kind === "number") {
    const numbers = see.numbers = numberInk(values.filter((text) => text !== "–").map(Number));
    for (const point of see.points) point.ink = point.colour === "–" ? MISSING : numbers.ink(Number(point.colour));
    see.hidden = new Set();
    inAddress({ off: [] }); // numbers are not hidden one by one
    const ramp = element("span", null, { class: "ramp", "aria-hidden": "true" });
    ramp.style.background = `linear-gradient(to right, ${SCALE.join(", ")})`;
    place.replaceChildren(element("span", `${titled(see.colour)}: ${short(numbers.least)}`), ramp, element("span", `${short(numbers.most)} (in the middle ${short(numbers.middle)})${values.includes("–") ? "; grey: not known" : ""}`), ...movedLegend());
    return;
  }
  see.numbers = null;
  const names = [...new Set(values)].sort();
  for (const point of see.points) point.ink = INK[Math.min(names.indexOf(point.colour), INK.length - 1)];
  const off = new Set(ofAddress("off"));
  see.hidden = new Set(names.filter((name) => off.has(name)));
  place.replaceChildren(...names.slice(0, MOST_NAMES).map((name, i) => {
    const label = element("label", null, { class: "check" }), box = element("input", null, { type: "checkbox" }), dot = element("span", null, { class: "dot", "aria-hidden": "true" });
    box.checked = !see.hidden.has(name);
    dot.style.background = INK[Math.min(i, INK.length - 1)];
    box.addEventListener("change", () => { if (box.checked) see.hidden.delete(name); else see.hidden.add(name); inAddress({ off: [...see.hidden] }); filterBoard(); askRows(0); });
    label.append(box, dot, document.createTextNode(name));
    return label;
  }), ...moreThan(MOST_NAMES, names, "span"), ...movedLegend());
}

// What the rings mean, where there are any; and that nobody looked for them where there are too many points.
function movedLegend() {
  if (!see.looked_into) return [element("span", NOT_READ, { class: "soft" })];
  return see.points.some((point) => point.not_steady) ? [element("span", NOT_STEADY, { class: "soft" })] : [];
}

async function loadBoard() {
  const told = document.getElementById("board-told"), query = new URLSearchParams({ q: board.dataset.query });
  for (const select of document.querySelectorAll("select[data-board]")) query.set(select.dataset.board, select.value);
  document.getElementById("board-csv").href = `/inferbench/api/points?${query}&format=csv`;
  try {
    const answer = await fetch(`/inferbench/api/points?${query}`, { credentials: "same-origin" }), body = await answer.json();
    if (!answer.ok) throw new Error(Array.isArray(body.detail) ? body.detail.map((of) => of.msg).join("; ") : body.detail);
    see.points = body.rows.map((row) => Object.fromEntries(body.columns.map((name, i) => [name, row[i]])));
    const ends = withEnds(see.points, "x");
    Object.assign(see, { x: body.x, y: body.y, colour: body.colour, left_out: body.left_out, looked_into: body.looked_into, groups: [...new Set(see.points.map((point) => point.group))], extent: ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1] });
    document.getElementById("board-made").textContent = `Each point is the newest valid run of a configuration on a device, at the load that it was offered. Across: ${body.x.name}, ${body.x.formula}. Up: ${body.y.name}, ${body.y.formula}. Whiskers are 95% intervals within the run, where it has them. The line joins, within each task and data set, what no other configuration beats in one without being worse in the other; what an open loop carries is what it was offered. A point of a rate that was not steady is hollow, in dashes, and so is the line beside it: the figure is what was served in the window on average.`;
    legend();
    const bound = Number(oneOfAddress("bound"));
    setBound(oneOfAddress("bound") && Number.isFinite(bound) ? bound : null);
    board.dataset.ready = "yes";
  } catch (problem) { told.textContent = `The picture can't be drawn: ${problem.message}`; }
}

function nearest(event) {
  const box = board.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  let found = null, least = 144;
  for (const point of see.points) { if (see.hidden.has(point.colour)) continue; const d = (see.sx.to(point.x) - px) ** 2 + (see.sy.to(point.y) - py) ** 2; if (d < least) { least = d; found = point; } }
  return { found, px };
}

// By keys a hundredth of the values that there are, or a tenth, on the axis' own scale.
function moveByKey(event) {
  const [left, right] = see.extent.map((value) => see.sx.to(value)), step = Math.max(1, (right - left) / 100);
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
  if (steps) dragTo(Math.min(right, Math.max(left, linePixel())) + steps * step);
  else if (event.key === "Home") dragTo(left);
  else if (event.key === "End") dragTo(right);
  else if (event.key === "Delete" || event.key === "Escape") setBound(null);
  else return;
  event.preventDefault();
}

if (board) {
  let dragging = false;
  const onLine = (px) => Math.abs(linePixel() - px) < 9, begin = (event, px) => { dragging = true; dragTo(px, true); event.currentTarget.setPointerCapture(event.pointerId); };
  const released = () => { if (dragging) rememberBound(); dragging = false; };
  const pixel = (event) => event.clientX - board.getBoundingClientRect().left;
  // A point at the edge is still one: there only the handle begins the line.
  board.addEventListener("pointerdown", (event) => { if (see.sx && onLine(pixel(event)) && (see.bound !== null || !nearest(event).found)) begin(event, pixel(event)); });
  board.addEventListener("pointermove", (event) => {
    if (!see.sx) return;
    const { found, px } = nearest(event);
    if (dragging) { dragTo(px, true); return; }
    board.style.cursor = onLine(px) ? "ew-resize" : found ? "pointer" : "default";
    if (found !== see.over) { see.over = found; document.getElementById("board-point").textContent = found ? `${found.model}, ${found.colour}, ${found.device}, ${found.load}: ${see.x.name} ${short(found.x)}, ${see.y.name} ${short(found.y)}${found.front ? "; nothing beats it in both" : ""}${found.not_steady ? `; ${found.not_steady}` : ""}.` : "\u00a0"; drawBoard(); }
  });
  board.addEventListener("pointerup", (event) => { if (!dragging && see.sx) { const { found } = nearest(event); if (found) location.assign(`/inferbench/run/${encodeURIComponent(found.run)}`); } released(); });
  handle.addEventListener("pointerdown", (event) => { handle.focus(); begin(event, pixel(event)); event.preventDefault(); });
  handle.addEventListener("pointermove", (event) => { if (dragging) dragTo(pixel(event), true); });
  for (const of of [board, handle]) for (const end of ["pointercancel", "lostpointercapture"]) of.addEventListener(end, released);
  handle.addEventListener("keydown", (event) => { if (see.sx) moveByKey(event); });
  for (const select of document.querySelectorAll("select[data-board]")) select.addEventListener("change", () => { inAddress({ [select.dataset.board]: select.value, off: [], ...(select.dataset.board === "x" ? { bound: null } : {}) }); loadBoard(); });
  document.getElementById("board-bound").addEventListener("input", (event) => setBound(event.target.value === "" ? null : Number(event.target.value)));
  document.getElementById("board-png").addEventListener("click", () => see.points.length && saved(boardFile(see, board.dataset.query, kept).toDataURL("image/png"), "leaderboard.png"));
  document.getElementById("board-bars-csv").addEventListener("click", () => savedText(csvOf({ data: [{ name: see.y.name, x: see.best.map((point) => point.device), y: see.best.map((point) => point.y), text: see.best.map((point) => `${point.model}, ${point.load}, ${point.group}, ${point.run}`) }] }), "best-of-each-device.csv"));
  // Another filter is asked with the same picture.
  document.querySelector("form.filters").addEventListener("formdata", (event) => { for (const name of ["x", "y", "colour", "bound", "off"]) for (const value of ofAddress(name)) event.formData.append(name, value); });
  addEventListener("resize", drawBoard);
  loadBoard();
}
