"use strict";

// A trace's page: timeline and flame graph of the chosen levels, the chosen span's attributes, the search. The address
// has what is chosen.
const page = document.getElementById("trace"), API = page.dataset.api;
const told = (id, text) => { document.getElementById(id).textContent = text; };
const noun = page.dataset.noun;
let spans = null, flame = null, searched = 0;

// The answer to the newest question of a kind; null of an older one, which may come later and must not be shown then.
const asked = {};
async function newest(kind, path) {
  drop(kind);
  const mine = asked[kind] = new AbortController();
  try {
    const body = await answered(path, mine.signal);
    return asked[kind] === mine ? body : null;
  } catch (problem) {
    if (asked[kind] !== mine) return null;
    throw problem;
  }
}
function drop(kind) { asked[kind]?.abort(); delete asked[kind]; }

const levels = () => [...document.querySelectorAll("input[name=shown]:checked")].map((box) => box.value);
const request = () => Number(document.getElementById("request").value) - 1;

const timeline = new Boxes(document.getElementById("timeline"), { told: document.getElementById("timeline-at"), unit: axisMs, choose: showSpan });
const flames = new Boxes(document.getElementById("flame"), { told: document.getElementById("flame-at"), unit: axisMs, choose: (at) => told("frame", at < 0 ? "" : flame.told(at)) });
[timeline, flames].forEach(buttons);

function goTo() {
  const field = document.getElementById("request"), at = Math.min(Math.max(request() || 0, 0), spans.begins.length - 1), edge = 0.01 * (spans.ends[at] - spans.begins[at] || 1);
  field.value = at + 1;
  timeline.data.origin = spans.begins[at];
  timeline.look(spans.begins[at] - edge, spans.ends[at] + edge);
  document.getElementById("earlier").disabled = at === 0;
  document.getElementById("later").disabled = at === spans.begins.length - 1;
  told("request-told", `of ${count(spans.begins.length)}, ${figure(ms(spans.ends[at] - spans.begins[at]))} ms${spans.partOf(at)}`);
  inAddress({ request: at ? String(at + 1) : "" });
  if (document.getElementById("alone").checked) loadFlame();
}

// Whether these levels take requests with the instruments of the library level, which tell of a GPU, too.
const deeper = (shown) => shown.includes("library") || shown.includes("hardware");

// The requests with the instruments of the library level, or those without: times of both are never in one picture.
// False where others were asked for meanwhile.
async function read(deep) {
  const body = await newest("timeline", `${API}/timeline${deep ? "?level=library" : ""}`);
  if (!body) return false;
  spans = new Spans(body);
  const { others } = body, field = document.getElementById("request");
  told("timeline-told", `${count(spans.length)} spans${spans.lacking(noun)}${others ? `: ${deep ? "without" : "with"} the level library ticked these are shown` : ""}.`);
  field.max = spans.begins.length;
  document.getElementById("parts").hidden = !body.parts.some((part) => part in PARTS);
  spans.legend(document.getElementById("legend"));
  return true;
}

async function changeLevels() {
  drop("timeline"); // what is on its way is of levels that were ticked before
  const { others, instrumented } = spans.body, deep = deeper(levels());
  if (!others || deep === (instrumented === "library")) { showLevels(); return; }
  try {
    if (!await read(deep)) return;
  } catch (problem) { told("timeline-told", `The spans can't be shown: ${problem.message}`); return; }
  timeline.marked = null;
  showLevels();
  goTo();
  showSpan(-1);
  await search();
}

function showLevels() {
  const { origin } = timeline.data || { origin: 0 }, shown = levels();
  timeline.chosen = -1;
  timeline.set(spans.boxes(shown));
  timeline.data.origin = origin;
  inAddress({ levels: shown.length === spans.present.length && !(spans.body.others && deeper(shown)) ? "" : shown.join(",") });
  loadFlame();
}

async function loadFlame() {
  const alone = document.getElementById("alone").checked, part = document.getElementById("part"), query = new URLSearchParams(), shown = levels();
  part.disabled = alone;
  if (alone) query.set("trace", spans.body.requests[request()]); else if (part.value) query.set("part", part.value);
  if (shown.length < spans.present.length || spans.body.others) for (const level of shown) query.append("level", level);
  inAddress({ alone: alone ? "1" : "", part: part.value });
  drop("flame");
  try {
    const body = shown.length ? await newest("flame", `${API}/flamegraph?${query}`) : { frames: [], requests: 0, spans: 0, left_out: 0, beside: 0, others: 0, apart: {} };
    if (!body) return;
    const apart = Object.entries(body.apart).map(([of, steps]) => `${count(steps)} ${PARTS[of] ?? of} ${noun}${steps === 1 ? "" : "s"}`);
    flame = flameBoxes(body, spans);
    flames.chosen = -1;
    flames.set(flame);
    flames.look(...flame.whole);
    told("frame", "");
    told("flame-told", `${count(body.spans)} spans of ${count(body.requests)} ${noun}${body.requests === 1 ? "" : "s"} in ${count(body.frames.length)} frames${body.left_out ? `; ${count(body.left_out)} spans of the shortest or innermost frames are left out` : ""}${body.beside ? `; ${count(body.beside)} spans of what a GPU did meanwhile are in none of these: tick the level hardware alone` : ""}${body.others ? `; asked with the instruments of level ${body.instrumented}` : ""}${apart.length ? `; not among them: ${apart.join(", ")}` : ""}.`);
  } catch (problem) { told("flame-told", `The flame graph can't be shown: ${problem.message}`); }
}

async function showSpan(at) {
  drop("span");
  const place = document.getElementById("span");
  if (at < 0) { place.replaceChildren(element("p", "No span is chosen: click one, or go through them with the arrow keys.", { class: "soft" })); return; }
  const facts = element("dl", null, { class: "facts" }), type = spans.typeOf(at), own = spans.request[at], fact = (name, value) => { const cell = element("dd", null); cell.append(value); facts.append(element("dt", name), cell); };
  const whole = spans.roots[own] >= 0 ? spans.duration_ns[spans.roots[own]] : 0, up = spans.parent[at];
  fact("level", spans.levelOf(at) + (type ? `, ${type}` : ""));
  fact(noun, count(own + 1));
  fact("begins after", `${figure(ms(spans.start_ns[at] - spans.begins[own]))} ms`);
  fact("takes", `${figure(ms(spans.duration_ns[at]))} ms${whole > 0 ? `, ${figure(100 * spans.duration_ns[at] / whole)}% of the ${noun}` : ""}`);
  fact("of its own", `${figure(ms(spans.own_ns[at]))} ms`);
  if (up >= 0) { const button = element("button", spans.nameOf(up), { type: "button", class: "plain" }); button.addEventListener("click", () => timeline.pick(up)); fact("lies in", button); }
  place.replaceChildren(element("h3", spans.nameOf(at)), facts);
  try {
    const query = new URLSearchParams({ trace: spans.body.requests[own], span: spans.number[at] }), answer = await newest("span", `${API}/spans?${query}`);
    if (!answer) return;
    const [item] = answer.items;
    fact("span id", item.span_id);
    for (const [name, value] of Object.entries(item.attributes)) fact(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  } catch (problem) { fact("attributes", `can't be shown: ${problem.message}`); }
}

function row(item) {
  const own = spans.body.requests.indexOf(item.trace_id), line = element("tr", null), name = element("td", null, { class: "wrap" });
  const at = own < 0 ? -1 : spans.placeOf(own, item.span);
  if (at >= 0) { const button = element("button", item.name, { type: "button", class: "plain" }); button.addEventListener("click", () => { document.getElementById("request").value = own + 1; goTo(); timeline.pick(at); document.getElementById("span").scrollIntoView({ block: "nearest" }); }); name.append(button); } else name.textContent = item.name;
  line.append(name, element("td", item.level), element("td", item.type), element("td", own < 0 ? "not drawn" : count(own + 1), { class: "n" }), element("td", at < 0 ? "" : figure(ms(spans.start_ns[at] - spans.begins[own])), { class: "n" }), element("td", figure(ms(item.duration_ns)), { class: "n" }));
  return line;
}

async function search(more = false) {
  const name = document.getElementById("name").value, level = document.getElementById("level").value, query = new URLSearchParams({ name, limit: 50, offset: more ? searched : 0 }), body = document.querySelector("#found tbody");
  if (level) query.set("level", level);
  inAddress({ name, level });
  try {
    const answer = await newest("search", `${API}/spans?${query}`);
    if (!answer) return;
    if (!more) { body.replaceChildren(); searched = 0; }
    body.append(...answer.items.map(row));
    searched += answer.items.length;
    told("found-told", `${count(answer.total)} of ${count(spans.body.spans + spans.body.others)} spans match${searched < answer.total ? `; the first ${count(searched)} are listed` : ""}.`);
    document.getElementById("more").hidden = answer.next_offset === null;
  } catch (problem) { told("found-told", `The search failed: ${problem.message}`); return; }
  const codes = spans.body.names.map((of) => of.includes(name)), wanted = spans.body.levels.indexOf(level);
  timeline.marked = name || level ? Uint8Array.from({ length: spans.length }, (_, at) => codes[spans.name[at]] && (wanted < 0 || spans.level[at] === wanted)) : null;
  timeline.draw();
}

async function loadTrace() {
  const given = oneOfAddress("levels")?.split(",");
  try {
    if (!await read(given && deeper(given))) return;
  } catch (problem) { told("timeline-told", `The spans can't be shown: ${problem.message}`); page.removeAttribute("aria-busy"); return; }
  if (!spans.length) { told("timeline-told", "It has no spans."); page.removeAttribute("aria-busy"); return; }
  if (spans.body.others) for (const box of document.querySelectorAll("input[name=shown]")) if (deeper([box.value])) box.checked = false;
  if (given) for (const box of document.querySelectorAll("input[name=shown]")) box.checked = given.includes(box.value);
  document.getElementById("request").value = oneOfAddress("request") || 1;
  document.getElementById("alone").checked = oneOfAddress("alone") === "1";
  document.getElementById("part").value = oneOfAddress("part") in PARTS ? oneOfAddress("part") : "";
  document.getElementById("name").value = oneOfAddress("name") || "";
  document.getElementById("level").value = oneOfAddress("level") || "";
  showLevels();
  goTo();
  showSpan(-1);
  await search();
  page.removeAttribute("aria-busy");
}

document.getElementById("request").addEventListener("change", goTo);
for (const [id, step] of [["earlier", -1], ["later", 1]]) document.getElementById(id).addEventListener("click", () => { document.getElementById("request").value = request() + 1 + step; goTo(); });
for (const box of document.querySelectorAll("input[name=shown]")) box.addEventListener("change", changeLevels);
for (const id of ["alone", "part"]) document.getElementById(id).addEventListener("change", loadFlame);
document.getElementById("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
document.getElementById("more").addEventListener("click", () => search(true));
addEventListener("DOMContentLoaded", loadTrace);
