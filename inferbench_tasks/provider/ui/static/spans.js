"use strict";

// A trace's columns, as the API sends them, as boxes: a group of rows for each level, colours by operator.
const LEVELS = ["application", "model", "framework", "layer", "library", "hardware", "foreign"];
const MOST_LANES = 200;
// A training's steps that are not measured ones.
const PARTS = { warmup: "warm-up", last: "last, smaller" };
const OF_LEVELS = { application: 8, model: 0, framework: 6 };

const ms = (ns) => ns / 1e6;
const figure = (value) => Math.abs(value) >= 100 || value === 0 ? value.toFixed(1).replace(/\.0$/, "") : value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
const axisMs = (ns, step) => { const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(ms(step)) + 1e-9))); return `${ms(ns).toFixed(digits)} ms`; };
const count = (number) => number.toLocaleString("en");

async function answered(path, signal) {
  const answer = await fetch(path, { credentials: "same-origin", signal }), body = await answer.json();
  if (!answer.ok) throw new Error(Array.isArray(body.detail) ? body.detail.map((of) => of.msg).join("; ") : body.detail);
  return body;
}

class Spans {
  constructor(body) {
    const { columns } = body, length = columns.name.length, levels = body.levels, to = new Float64Array(length);
    for (let at = 0; at < length; at++) to[at] = columns.start_ns[at] + columns.duration_ns[at];
    const begins = new Float64Array(body.requests.length).fill(Infinity), ends = new Float64Array(body.requests.length).fill(-Infinity), roots = new Int32Array(body.requests.length).fill(-1);
    for (let at = 0; at < length; at++) { const request = columns.request[at]; if (columns.start_ns[at] < begins[request]) begins[request] = columns.start_ns[at]; if (to[at] > ends[request]) ends[request] = to[at]; if (columns.parent[at] < 0 && roots[request] < 0) roots[request] = at; }
    Object.assign(this, { ...columns, body, length, to, begins, ends, roots, present: LEVELS.filter((name) => levels.includes(name)) });
    this.lanes = this.laid();
    this.coded();
    this.times = this.timed();
    Object.assign(this, inked([this]));
  }

  // What of the stored trace is not in these spans, in words.
  lacking(noun) {
    const { left_out, others, instrumented } = this.body;
    return `${left_out ? `; ${count(left_out)} of later ${noun}s are not drawn` : ""}${others ? `; of the ${noun}s with the instruments of level ${instrumented}: ${count(others)} spans of those with others are apart from these` : ""}`;
  }

  // Which part of its training a step is, in words; nothing of a measured one.
  partOf(request) { const part = this.body.parts[request]; return part in PARTS ? `, ${PARTS[part]}` : ""; }
  levelOf(at) { return this.body.levels[this.level[at]]; }
  nameOf(at) { return this.body.names[this.name[at]]; }
  typeOf(at) { return this.body.types[this.type[at]]; }
  key(level, type, name) { return level in OF_LEVELS ? level : type || name; }

  // The row of a request's span by its number; -1 of one that is not drawn. They are in the order in which they begin.
  placeOf(request, number) {
    let low = 0, high = this.length;
    while (low < high) { const middle = (low + high) >> 1; if (this.start_ns[middle] < this.begins[request]) low = middle + 1; else high = middle; }
    for (let at = low; at < this.length && this.start_ns[at] <= this.ends[request]; at++) if (this.request[at] === request && this.number[at] === number) return at;
    return -1;
  }

  // Which of the keys is each span's: there are few, and each is made once.
  coded() {
    const { names, types, levels } = this.body, known = new Map(), places = new Map();
    this.keys = []; this.code = new Uint32Array(this.length);
    for (let at = 0; at < this.length; at++) {
      const what = (this.level[at] * types.length + this.type[at]) * names.length + this.name[at];
      let code = known.get(what);
      if (code === undefined) {
        const key = this.key(levels[this.level[at]], types[this.type[at]], names[this.name[at]]);
        if (!places.has(key)) places.set(key, this.keys.push(key) - 1);
        known.set(what, code = places.get(key));
      }
      this.code[at] = code;
    }
  }

  // Within a level each span stands on the first row that is free, below those of its level that it lies in.
  laid() {
    const { start_ns, parent, level, to } = this, lane = new Int32Array(this.length).fill(-1), ends = this.body.levels.map(() => []);
    for (let at = 0; at < this.length; at++) {
      let around = parent[at];
      while (around >= 0 && level[around] !== level[at]) around = parent[around];
      const last = ends[level[at]];
      let row = around >= 0 && lane[around] >= 0 ? lane[around] + 1 : 0;
      while (row < MOST_LANES - 1 && last[row] > start_ns[at]) row++;
      row = Math.min(row, MOST_LANES - 1);
      while (last.length <= row) last.push(-Infinity);
      last[row] = Math.max(last[row], to[at]);
      lane[at] = row;
    }
    this.rows = ends.map((last) => last.length);
    return lane;
  }

  timed() {
    const times = new Float64Array(this.keys.length);
    for (let at = 0; at < this.length; at++) times[this.code[at]] += this.own_ns[at];
    return new Map(this.keys.map((key, code) => [key, times[code]]));
  }

  inkOf(key) { return this.inks.get(key) ?? FILLS.length - 1; }
  ink(level, type, name) { return this.inkOf(this.key(level, type, name)); }

  boxes(shown = this.present) {
    const { length, level, body } = this, heads = [], first = body.levels.map(() => -1);
    for (const name of this.present.filter((of) => shown.includes(of))) { const code = body.levels.indexOf(name); first[code] = heads.length; for (let row = 0; row < this.rows[code]; row++) heads.push(row ? "" : name); }
    const row = new Int32Array(length), fill = new Uint8Array(length), inks = this.keys.map((key) => this.inkOf(key));
    for (let at = 0; at < length; at++) { row[at] = first[level[at]] < 0 ? -1 : first[level[at]] + this.lanes[at]; fill[at] = inks[this.code[at]]; }
    return { from: this.start_ns, to: this.to, row, fill, parent: this.parent, heads, whole: [this.begins.reduce((a, b) => Math.min(a, b), Infinity), this.ends.reduce((a, b) => Math.max(a, b), -Infinity)], origin: 0, label: (at) => this.nameOf(at), told: (at) => this.told(at) };
  }

  told(at) {
    const type = this.typeOf(at), begun = ms(this.start_ns[at] - this.begins[this.request[at]]);
    return `${this.levelOf(at)}: ${this.nameOf(at)}${type ? ` (${type})` : ""}, ${figure(ms(this.duration_ns[at]))} ms, of its own ${figure(ms(this.own_ns[at]))} ms, ${figure(begun)} ms after its beginning`;
  }

  legend(place) {
    place.replaceChildren(...[...this.inks, ...(this.others ? [["others", FILLS.length - 1]] : [])].map(([key, fill]) => {
      const item = element("li", null), dot = element("span", null, { class: "dot", "aria-hidden": "true" });
      dot.style.background = FILLS[fill][0];
      item.append(dot, document.createTextNode(` ${key}`));
      return item;
    }));
  }
}

// The operators (or, without one, names) with the most time get colours of their own, the same in all of these traces.
function inked(traces) {
  const times = new Map();
  for (const trace of traces) for (const [key, time] of trace.times) times.set(key, (times.get(key) || 0) + time);
  const free = FILLS.map((_, fill) => fill).filter((fill) => !Object.values(OF_LEVELS).includes(fill));
  const inks = new Map([...times.keys()].filter((key) => key in OF_LEVELS).map((key) => [key, OF_LEVELS[key]]));
  [...times].filter(([key]) => !(key in OF_LEVELS)).sort((a, b) => b[1] - a[1]).slice(0, free.length).forEach(([key], place) => inks.set(key, free[place]));
  return { inks, others: times.size > inks.size };
}

// A flame graph's frames as boxes: as wide as their time, or as what lies in them where that takes longer.
function flameBoxes(body, spans) {
  const frames = body.frames, length = frames.length, wide = Float64Array.from(frames, (frame) => Math.max(0, frame.total_ns)), inner = new Float64Array(length), from = new Float64Array(length), to = new Float64Array(length), used = new Float64Array(length + 1);
  for (let at = length - 1; at >= 0; at--) { wide[at] = Math.max(wide[at], inner[at]); if (frames[at].parent >= 0) inner[frames[at].parent] += wide[at]; }
  for (let at = 0; at < length; at++) { const up = frames[at].parent, slot = up < 0 ? length : up; from[at] = (up < 0 ? 0 : from[up]) + used[slot]; used[slot] += wide[at]; to[at] = from[at] + wide[at]; }
  const deep = frames.reduce((most, frame) => Math.max(most, frame.depth + 1), 0), all = used[length] || 1, share = (ns) => used[length] ? ` (${figure(100 * ns / all)}%)` : ""; // of nothing there is no share
  const told = (at) => { const of = frames[at]; return `${of.level}: ${of.name}${of.type ? ` (${of.type})` : ""}, ${figure(ms(of.total_ns))} ms in ${count(of.spans)} ${of.spans === 1 ? "span" : "spans"}${share(of.total_ns)}, of its own ${figure(ms(of.self_ns))} ms`; };
  return { from, to, row: Int32Array.from(frames, (of) => of.depth), fill: Uint8Array.from(frames, (of) => spans.ink(of.level, of.type, of.name)), parent: Int32Array.from(frames, (of) => of.parent), heads: Array(deep).fill(""), whole: [0, all], origin: 0, flat: true, label: (at) => frames[at].name, told };
}

// The buttons around a picture: what they do is its.
function buttons(picture) {
  const acts = { in: () => picture.zoom(0.5), out: () => picture.zoom(2), whole: () => picture.look(...picture.whole), png: () => picture.data && saved(picture.png(), `${file}.png`), csv: () => picture.data && savedText(picture.csv(), `${file}.csv`) }, file = `${document.title} ${picture.canvas.id}`.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 80);
  for (const button of document.querySelectorAll(`button[data-of="${picture.canvas.id}"]`)) button.addEventListener("click", () => acts[button.dataset.act]());
}
