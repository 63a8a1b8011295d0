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

// Two to six runs can be compared: the button says how many are chosen.
function countChosen() {
  const button = document.querySelector("button[data-compare]");
  if (!button) return;
  const chosen = document.querySelectorAll("input[name=run]:checked").length;
  button.disabled = chosen < 2 || chosen > 6;
  if (chosen < 2) button.textContent = "Compare: tick 2 to 6 runs";
  else button.textContent = chosen > 6 ? `Compare: at most 6 (${chosen} chosen)` : `Compare ${chosen} chosen`;
}

// Colours that are meant for paper, on a dark ground.
const DARK = { "#b00020": "#ff8a94", "#00664a": "#5bd0a5", "#333": "#dddddd", "#000": "#ffffff", "#000000": "#ffffff" };
function recoloured(value, key = "") {
  if (typeof value === "string") return (/color$/i.test(key) && DARK[value.toLowerCase()]) || value;
  if (Array.isArray(value)) return value.map((item) => recoloured(item, key));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, recoloured(item, name)]));
}

// Every chart as numbers and as a picture, whatever it shows.
function csvOf(chart) {
  const rows = [["series", "x", "y", "text"]], list = (value) => (Array.isArray(value) ? value : []);
  for (const trace of chart.data) {
    const x = list(trace.x), y = list(trace.y);
    if (Array.isArray(trace.z)) trace.z.forEach((line, row) => list(line).forEach((value, column) => rows.push([trace.name ?? "", x[column] ?? column, y[row] ?? row, value])));
    else for (let index = 0; index < Math.max(x.length, y.length); index++) rows.push([trace.name ?? "", x[index] ?? "", y[index] ?? "", list(trace.text)[index] ?? ""]);
  }
  // What a spreadsheet would take for a formula is a text; numbers stay numbers.
  const cell = (value) => { const text = typeof value === "number" ? String(value) : decoded(String(value)).replace(/^[=+\-@\t\r]/, "'$&"); return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function saved(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

// The picture is the light one, whatever the page's theme: it goes into a document.
function tools(place, chart, name, how) {
  const line = document.createElement("p"), file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "chart";
  line.className = "tools";
  const button = (title, what) => { const made = document.createElement("button"); made.type = "button"; made.textContent = title; made.setAttribute("aria-label", `${title} of ${name}`); made.addEventListener("click", what); line.append(made); };
  button("CSV", () => { const url = URL.createObjectURL(new Blob([csvOf(chart)], { type: "text/csv" })); saved(url, `${file}.csv`); setTimeout(() => URL.revokeObjectURL(url), 1000); });
  button("PNG", async () => saved(await Plotly.toImage({ data: chart.data, layout: { ...chart.layout, title: { text: name.replaceAll("<", "&lt;") }, margin: { ...chart.layout.margin, t: 50 } } }, { format: "png", width: 1200, height: 700 }), `${file}.png`));
  const fold = document.createElement("details"), summary = document.createElement("summary"), text = document.createElement("p");
  summary.textContent = "How is this made?";
  text.textContent = how;
  fold.append(summary, text);
  line.append(" ");
  place.after(line, fold);
  fold.className = "how soft";
}

function draw(element, chart) {
  const dark = document.documentElement.dataset.theme === "dark";
  if (dark) chart = recoloured(chart);
  const layout = { ...chart.layout, autosize: true };
  if (dark) {
    const axis = { gridcolor: "#3a3f47", linecolor: "#888", tickcolor: "#888" };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { ...layout.font, color: "#e6e6e6" };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) layout[name] = { ...layout[name], ...axis };
  }
  Plotly.newPlot(element, chart.data, layout, { responsive: true, displaylogo: false });
  if (layout.meta === "requests") element.on("plotly_click", ({ points }) => showRequest(element, points[0]));
  if (layout.meta === "links") element.on("plotly_click", ({ points }) => { if (points[0].customdata) location.href = points[0].customdata; });
  if (layout.meta === "runs") element.on("plotly_click", ({ points }) => { location.href = `/inferbench/run/${encodeURIComponent(points[0].customdata)}`; });
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
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

// Plotly's texts are escaped HTML.
function decoded(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
}

function tableOf(table) {
  const made = element("table", null);
  made.append(element("caption", table.title));
  const head = element("tr", null);
  for (const title of table.head) head.append(element("th", title, { scope: "col" }));
  made.append(head);
  for (const cells of table.rows) {
    const row = element("tr", null);
    // A sentence is not squeezed into a word's width on a phone: the table scrolls.
    for (const cell of cells) row.append(element("td", String(cell), String(cell).length > 60 ? { class: "long" } : {}));
    made.append(row);
  }
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

document.addEventListener("change", suggestSign);
document.addEventListener("click", openInAirflow);
document.addEventListener("click", cancelSubmission);
document.addEventListener("change", countChosen);
countChosen();
// On a phone an empty filter would fill the screen before anything is seen.
if (matchMedia("(max-width: 640px)").matches) for (const fold of document.querySelectorAll("details.fold:not([data-filled])")) fold.open = false;
for (const place of document.querySelectorAll("[data-charts]")) loadCharts(place);
for (const place of document.querySelectorAll("script[data-draw]")) {
  const target = document.getElementById(place.dataset.draw), chart = JSON.parse(place.textContent);
  draw(target, chart);
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
