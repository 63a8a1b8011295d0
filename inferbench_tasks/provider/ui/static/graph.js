"use strict";

// The plan as a picture: a line of stages for each job, what holds the device framed, the wait for it before, and what
// follows all jobs. Seconds are the scheduler's expectations.
const MOST_LINES = 4; // more jobs are told by their number
const LEAST = 0.85; // so small it is drawn where there is no room, before one has to scroll
const SVG = "http://www.w3.org/2000/svg";

function part(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const pointText = (point) => Object.entries(point).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
// A point with the parts of its mappings by their own paths.
const flat = (point, before = "") => Object.assign({}, ...Object.entries(point).map(([key, value]) => (value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${before}${key}.`) : { [before + key]: value })));

// Of several points only what differs between them: it tells them apart, and leaves room for their time.
function pointLabels(nested) {
  const points = nested.map((point) => flat(point));
  const names = [...new Set(points.flatMap((point) => Object.keys(point)))];
  const differs = (name) => new Set(points.map((point) => JSON.stringify(point[name]))).size > 1;
  const last = (name) => name.slice(name.lastIndexOf(".") + 1), unique = (name) => names.filter((other) => last(other) === last(name)).length === 1;
  const order = points.length > 1 ? names.filter(differs) : names;
  return points.map((point) => pointText(Object.fromEntries(order.filter((name) => name in point).map((name) => [unique(name) ? last(name) : name, point[name]]))));
}
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function graphOf(of) {
  const own = of.stages.filter((stage) => !stage.of_submission), after = of.stages.filter((stage) => stage.of_submission);
  const lines = Math.min(of.jobs, MOST_LINES), high = 24, step = 52, top = 48, gap = 10;
  const wide = (stage) => Math.round(stage.name.length * 6.3) + 12;
  const leased = own.map((stage) => stage.leased), from = leased.indexOf(true), to = leased.lastIndexOf(true);
  const wait = of.place?.wait_s, begins = wait ? `waits ${duration(wait)}` : "begins at once";
  const said = !of.place ? ["in turns"] : wait === null ? (of.place.devices ? ["too few devices", "on any host"] : ["no device", "is there"]) : [of.place.overdue ? "the job there is overdue" : begins, of.place.jobs_before ? `${of.place.jobs_before} before it` : "first in line"];
  const held = `on ${of.device}: about ${duration(of.expected_s)}`, long = (text) => Math.ceil(text.length * 6.6);
  // The lane of who waits, before the device: its words end there, and begin within the picture.
  const before = own.slice(0, Math.max(0, from)).reduce((sum, stage) => sum + wide(stage) + gap, 4);
  const xs = [], lane = Math.max(84, 18 + Math.max(...said.map(long)) - before);
  let x = 4;
  own.forEach((stage, index) => { if (index === from) x += lane; if (index && index === to + 1 && from >= 0) x += 8; xs.push(x); x += wide(stage) + gap; });
  const joined = x + 8, bottom = top + lines * step + (of.jobs > lines ? 18 : 0), middle = top + ((lines - 1) * step) / 2;
  after.forEach((stage) => { x += 8; xs.push(x); x += wide(stage) + gap; });
  const width = from < 0 ? x : Math.max(x, xs[from] - 4 + long(held)), height = bottom + 10;
  const label = `${of.jobs} ${of.jobs === 1 ? "job" : "jobs"} of ${own.every((stage) => stage.jobs === of.jobs) ? `${own.length} stages each` : `up to ${own.length} stages`}${after.length ? `, then ${after.map((stage) => stage.name).join(", ")}` : ""}`;
  const picture = part("svg", { class: "plan", viewBox: `0 0 ${width} ${height}`, style: `width: 100%; min-width: ${Math.round(width * LEAST)}px; max-width: ${width}px; height: auto`, role: "img", "aria-label": label });
  const line = (...points) => picture.append(part("polyline", { points: points.map((p) => p.join(",")).join(" ") }));
  const box = (stage, at, y) => {
    picture.append(part("rect", { class: stage.leased ? "leased" : "", x: at, y, width: wide(stage), height: high, rx: 5 }));
    picture.append(part("text", { x: at + wide(stage) / 2, y: y + 16, "text-anchor": "middle" }, stage.name));
  };
  const goes = (index, stage) => of.points_stages[index].includes(stage.name);
  if (from >= 0) {
    const left = xs[from] - 8, right = xs[to] + wide(own[to]) + 8;
    picture.append(part("rect", { class: "device", x: left, y: 22, width: right - left, height: bottom - 24, rx: 8 }));
    picture.append(part("text", { class: "soft", x: left + 4, y: 14 }, held));
    said.forEach((text, index) => picture.append(part("text", { class: "soft", x: left - 6, y: 14 + 14 * index, "text-anchor": "end" }, text)));
  }
  const labels = pointLabels(of.points.slice(0, lines)); // those that are drawn
  for (let index = 0; index < lines; index++) {
    const y = top + index * step, center = y + high / 2;
    if (from >= 0) picture.append(part("text", { class: "soft", x: xs[from], y: y - 6 }, cut(of.jobs === 1 ? "" : `${labels[index] || `job ${index + 1}`}: ${duration(of.points_s[index])}`, Math.max(12, Math.floor((xs[to] + wide(own[to]) - xs[from]) / 6.2)))));
    own.forEach((stage, at) => {
      const end = xs[at] + (goes(index, stage) ? wide(stage) : 0); // a stage that this job lacks is passed by the line
      if (at + 1 < own.length) line([end, center], [xs[at + 1], center]);
      else if (after.length) line([end, center], [joined, center], [joined, middle + high / 2], [xs[own.length], middle + high / 2]);
      if (at + 1 === from) picture.append(part("circle", { class: "wait", cx: xs[from] - lane / 2 - gap / 2, cy: center, r: 6 }));
    });
    own.forEach((stage, at) => { if (goes(index, stage)) box(stage, xs[at], y); });
  }
  after.forEach((stage, index) => {
    const at = xs[own.length + index];
    if (index + 1 < after.length) line([at + wide(stage), middle + high / 2], [xs[own.length + index + 1], middle + high / 2]);
    box(stage, at, middle);
  });
  if (of.jobs > lines) picture.append(part("text", { class: "soft", x: xs[Math.max(0, from)], y: bottom - 8 }, `and ${of.jobs - lines} more jobs`));
  return picture;
}
