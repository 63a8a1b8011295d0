"use strict";

// What every chart has, on a page and in a report that is opened without a server: its colours in the dark, its numbers,
// its picture, and how it is made. Both inline or load this file before they draw.

// Colours that are meant for paper, on a dark ground.
const DARK = { "#b00020": "#ff8a94", "#00664a": "#5bd0a5", "#333": "#dddddd", "#000": "#ffffff", "#000000": "#ffffff" };
function recoloured(value, key = "") {
  if (typeof value === "string") return (/color$/i.test(key) && DARK[value.toLowerCase()]) || value;
  if (Array.isArray(value)) return value.map((item) => recoloured(item, key));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, recoloured(item, name)]));
}

// The same chart for a dark page; the given one stays as it is.
function inTheDark(chart) {
  const { data, layout } = recoloured({ data: chart.data, layout: chart.layout });
  const axis = { gridcolor: "#3a3f47", linecolor: "#888", tickcolor: "#888" };
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { ...layout.font, color: "#e6e6e6" };
  layout.modebar = { ...layout.modebar, bgcolor: "rgba(27,29,33,0.8)" };
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) layout[name] = { ...layout[name], ...axis };
  return { ...chart, data, layout };
}

// Words on lines of at most so many characters; a longer word has a line of its own.
function onLines(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if ((lines.at(-1) + word).length > most) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.filter((line) => line);
}

// To the width: the title on as many lines as it needs, room for as many rows of the legend; on a phone smaller letters,
// and a name that is wider than the chart on several lines. ``data`` and ``layout`` are changed.
function fit(data, layout, width) {
  const small = width < 460;
  if (layout.title) {
    const lines = onLines(layout.title.text, width / (small ? 7.5 : 8.5));
    // From the top down: by itself its first line is put in the middle, and a third one over the axis.
    layout.title = { ...layout.title, text: lines.join("<br>"), font: { size: small ? 13 : 15 }, yref: "container", y: 1, yanchor: "top", pad: { t: 12 } };
    layout.margin = { ...layout.margin, t: 24 + 20 * lines.length };
  }
  const named = data.filter((trace) => trace.name && trace.showlegend !== false);
  if (layout.showlegend === false || named.length < 2) return;
  const letter = small ? 5 : 6.2, room = width - 80;
  const names = named.map((trace) => (small ? onLines(trace.name, (room - 45) / letter) : [trace.name]));
  named.forEach((trace, at) => { trace.name = names[at].join("<br>"); });
  const inRow = Math.max(1, Math.floor(room / (45 + Math.max(...names.flat().map((line) => line.length)) * letter)));
  const rows = inRow === 1 ? names.flat().length : Math.ceil(names.length / inRow), below = 56 + rows * (small ? 17 : 20);
  layout.height += below - layout.margin.b;
  layout.margin = { ...layout.margin, b: below };
  if (small) layout.legend = { ...layout.legend, font: { size: 9.5 } };
}

// Plotly's texts are escaped HTML.
function decoded(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
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

function savedText(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  saved(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// The picture is the light one, whatever the theme: it goes into a document.
function tools(place, chart, name, how) {
  const line = document.createElement("p"), file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "chart";
  line.className = "tools";
  const button = (title, what) => { const made = document.createElement("button"); made.type = "button"; made.textContent = title; made.setAttribute("aria-label", `${title} of ${name}`); made.addEventListener("click", what); line.append(made); };
  button("CSV", () => savedText(csvOf(chart), `${file}.csv`));
  button("PNG", async () => saved(await Plotly.toImage({ data: chart.data, layout: { ...chart.layout, title: { text: name.replaceAll("<", "&lt;") }, margin: { ...chart.layout.margin, t: 50 } } }, { format: "png", width: 1200, height: 700 }), `${file}.png`));
  const fold = document.createElement("details"), summary = document.createElement("summary"), text = document.createElement("p");
  summary.textContent = "How is this made?";
  text.textContent = how;
  fold.append(summary, text);
  line.append(" ");
  place.after(line, fold);
  fold.className = "how soft";
}
