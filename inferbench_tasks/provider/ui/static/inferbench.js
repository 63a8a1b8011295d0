"use strict";

// Links to Airflow's own pages: inside its frame they open in the window around it.
function openInAirflow(event) {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outer = window.parent.document.createElement("a");
  outer.href = link.href;
  outer.click();
}

const drawn = new Map(); // element -> its chart as it came, light
function draw(element, chart) {
  drawn.set(element, chart);
  if (document.documentElement.dataset.theme === "dark") chart = inTheDark(chart);
  const layout = { ...chart.layout, autosize: true }, data = chart.data.map((trace) => ({ ...trace }));
  if (element.clientWidth && element.clientWidth < 460) fit(data, layout, element.clientWidth);
  Plotly.newPlot(element, data, layout, { responsive: true, displaylogo: false });
  if (layout.meta === "requests") {
    whenClicked(element, (point) => { inAddress({ request: [point.customdata[0]] }); showRequest(element, point); });
    const [asked] = ofAddress("request"), of = asked === undefined ? null : requestOf(chart, asked);
    if (of) { showRequest(element, of); element.scrollIntoView({ block: "center" }); }
  }
  if (layout.meta === "links") whenClicked(element, ({ customdata }) => { if (customdata) location.href = customdata; });
  if (layout.meta === "runs") whenClicked(element, ({ customdata }) => { location.href = `/inferbench/run/${encodeURIComponent(customdata)}`; });
}

// Plotly looks each 50 ms at most for the point under the mouse. What it looks for while the button is down it takes for
// nothing, and if the button is let go within 50 ms of that, for no click. So it forgets the look, and looks anew.
function whenClicked(element, act) {
  element.addEventListener("mousedown", () => addEventListener("mouseup", () => Plotly.Fx.unhover(element, {}), { capture: true, once: true }));
  element.on("plotly_click", ({ points }) => act(points[0]));
}

// What is folded has no width: its chart is drawn when it is opened.
const unseen = new Map(), isFolded = (place) => place.closest("details:not([open])") !== null;
function whenSeen(place, act) {
  if (isFolded(place)) unseen.set(place, act); else act();
}
function showSeen() {
  for (const [place, act] of unseen) if (!isFolded(place)) { unseen.delete(place); act(); }
}
document.addEventListener("toggle", showSeen, true);

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The point of a request, by its number; null where it is not drawn.
function requestOf(chart, number) {
  for (const data of chart.data) {
    const at = (Array.isArray(data.customdata) ? data.customdata : []).findIndex((of) => String(of[0]) === number);
    if (at >= 0) return { data, customdata: data.customdata[at], x: data.x[at], y: data.y[at] };
  }
  return null;
}

// Where the time of one request went: a bar of its parts, and the same in words.
function showRequest(chart, point) {
  const names = point.data.meta, [request, ...parts] = point.customdata;
  let place = chart.parentElement.querySelector(".request");
  if (!place) chart.after(place = element("div", null, { class: "request", role: "status" }));
  place.replaceChildren(element("p", `Request ${request}, meant for ${point.x} s: ${point.y} ms`));
  if (parts[0] === null) { place.append(element("p", "The server told nothing of this request.", { class: "soft" })); return; }
  const bar = element("div", null, { class: "parts", "aria-hidden": "true" }), list = element("ul", null);
  const whole = parts.reduce((sum, value) => sum + Math.max(0, value), 0) || 1;
  parts.forEach((value, index) => {
    bar.append(element("span", null, { class: `part-${index}`, style: `width: ${(100 * Math.max(0, value)) / whole}%` }));
    const line = element("li", `${names[index + 1]}: ${value.toFixed(3)} ms (${((100 * value) / whole).toFixed(0)}%)`);
    line.prepend(element("i", null, { class: `part-${index}` }));
    list.append(line);
  });
  place.append(bar, list);
}

function tableOf(table) {
  const made = element("table", null);
  made.append(element("caption", table.title));
  const head = element("tr", null);
  for (const title of table.head) head.append(element("th", title, { scope: "col" }));
  made.append(head);
  table.rows.forEach((cells, at) => {
    const row = element("tr", null), shares = table.shares?.[at];
    // A sentence is not squeezed into a word's width on a phone: the table scrolls.
    // Of a table of counts each cell is shaded by its share of the row.
    cells.forEach((cell, column) => {
      if (shares) row.append(column ? element("td", String(cell), { class: "n shaded", style: `--share: ${Number(shares[column - 1])}` }) : element("th", String(cell), { scope: "row" }));
      else row.append(element("td", String(cell), String(cell).length > 60 ? { class: "long" } : {}));
    });
    made.append(row);
  });
  const scroll = element("div", null, { class: "scroll", tabindex: "0" });
  scroll.append(made);
  return scroll;
}

// Charts come after the page: they need the raw samples.
async function loadCharts(place) {
  const container = place;
  try {
    const answer = await fetch(place.dataset.charts, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    const { sections } = await answer.json();
    place.replaceChildren();
    for (const section of sections) {
      place.append(element("h2", section.title));
      if (section.text) place.append(element("p", section.text));
      const grid = element("div", null, { class: "charts" });
      place.append(grid);
      // Titles as text of the page, which wraps on a narrow screen.
      const places = section.charts.map((chart) => {
        const box = element("figure", null), place = element("div", null);
        const { title, ...layout } = chart.layout;
        box.append(element("figcaption", decoded(title.text)), place);
        grid.append(box);
        return [place, { ...chart, layout: { ...layout, margin: { ...layout.margin, t: 12 }, height: layout.height - 32 } }];
      });
      for (const [place, chart] of places) {
        draw(place, chart); // when all are there: each is as wide as its box ends up
        tools(place, chart, place.previousSibling.textContent, `${section.text ? section.text + " " : ""}It is made of the raw records (Parquet and CSV on each run's page) and the stored figures whenever this page is opened; all numbers that are drawn: ${new URL(container.dataset.charts, location.href).pathname}.`);
      }
      for (const table of section.tables) {
        place.append(tableOf(table));
        if (table.note) place.append(element("p", table.note, { class: "soft" }));
      }
    }
    if (!sections.length) place.append(element("p", "There is nothing to draw: the run has no raw samples."));
  } catch (problem) {
    place.replaceChildren(element("p", `The charts can't be shown: ${problem.message}`, { class: "problem", role: "alert" }));
  }
  place.setAttribute("aria-busy", "false");
}

// Ends a submission at the second click; the page follows what becomes of it.
async function cancelSubmission(event) {
  const button = event.target.closest("button[data-cancel]");
  if (!button) return;
  if (!button.dataset.sure) {
    button.dataset.sure = "1";
    button.textContent = "Really end it?";
    return;
  }
  button.disabled = true;
  const status = button.parentElement.querySelector("[role=status]");
  try {
    const answer = await fetch(button.dataset.cancel, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: "{}" });
    const { detail } = await answer.json();
    status.textContent = answer.ok ? "It is being ended …" : String(detail);
  } catch (problem) {
    status.textContent = `It can't be ended now: ${problem.message}`;
  }
  button.blur();
}

// A bound on a figure of which more is better is a lower one.
function suggestSign(event) {
  const sign = event.target.selectedOptions?.[0]?.dataset.sign;
  if (event.target.name === "bounded" && sign) event.target.parentElement.querySelector("[name=sign]").value = sign;
}

// A drawing of the page's own as a picture, light as all that go into a document.
async function savePicture(event) {
  const button = event.target.closest("button[data-svg]");
  if (!button) return;
  const drawing = document.getElementById(button.dataset.svg), copy = drawing.cloneNode(true), made = document.createElement("canvas"), image = new Image();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const text of copy.querySelectorAll("text")) text.setAttribute("style", "font: 11px system-ui, sans-serif; fill: #1c1c1c");
  for (const rect of copy.querySelectorAll("rect")) rect.style.fill = "#0b5ea8";
  image.src = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  await image.decode();
  Object.assign(made, { width: 2 * drawing.clientWidth, height: 2 * drawing.clientHeight });
  const pen = made.getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, made.width, made.height);
  pen.drawImage(image, 0, 0, made.width, made.height);
  URL.revokeObjectURL(image.src);
  saved(made.toDataURL("image/png"), `${button.dataset.svg}.png`);
}

document.addEventListener("click", savePicture);
document.addEventListener("change", suggestSign);
document.addEventListener("click", openInAirflow);
document.addEventListener("click", cancelSubmission);
// On a phone an empty filter would fill the screen before anything is seen.
if (matchMedia("(max-width: 640px)").matches) for (const fold of document.querySelectorAll("details.fold:not([data-filled])")) fold.open = false;
for (const place of document.querySelectorAll("[data-charts]")) loadCharts(place);
for (const place of document.querySelectorAll("script[data-draw]")) {
  const target = document.getElementById(place.dataset.draw), chart = JSON.parse(place.textContent);
  whenSeen(target, () => draw(target, chart));
  tools(target, chart, target.parentElement.querySelector("figcaption")?.textContent ?? document.title, place.dataset.how ?? "It is made of what PerfDB has stored whenever this page is opened.");
}
// What changes on a page is told by the server; where it can't, the page asks again now and then.
const pushed = document.querySelector("[data-pushed]");
if (pushed) {
  let source = null, timer = 0, held; // held: what came last while somebody was at something within the part
  const show = (html) => {
    if (html === undefined) return;
    held = undefined;
    if (pushed.contains(document.activeElement)) held = html;
    else pushed.innerHTML = html;
  };
  const stop = () => { clearTimeout(timer); source?.close(); };
  // One stream a tab, and none while nobody sees it.
  const follow = () => {
    stop();
    if (document.hidden) return;
    const own = source = new EventSource(pushed.dataset.pushed);
    own.addEventListener("now", (event) => show(JSON.parse(event.data)));
    own.addEventListener("error", () => { if (own === source && own.readyState === EventSource.CLOSED) { clearTimeout(timer); timer = setTimeout(askAgain, 5000); } }); // else it comes again by itself
  };
  const askAgain = async () => {
    if (document.hidden) return; // followed again once it is seen
    const of = source;
    const answer = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    const html = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-pushed]")?.innerHTML : undefined;
    if (of !== source) return; // a stream was begun meanwhile, and tells what is newer
    show(html);
    follow();
  };
  // The server tells a part once: what was held is shown when the focus has left.
  pushed.addEventListener("focusout", () => setTimeout(() => show(held)));
  // Nobody is told what nobody sees.
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else follow(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  follow();
}
