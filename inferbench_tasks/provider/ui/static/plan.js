"use strict";

// What the text would do, before it is sent: asked of the server's own validator while one types.
const send = document.getElementById("send"), sent = document.getElementById("sent"), plan = document.getElementById("plan");
const began = area.value;
const checks = document.getElementById("checks"), checking = { timer: 0, abort: null, text: null };

const ask = (path, body, signal) => fetch(`/inferbench/api/${path}`, { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

function duration(seconds) {
  if (seconds < 90) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

function placeText(place) {
  const types = place.device_types.join(" or "), several = place.devices_at_once > 1;
  if (place.wait_s === null) return place.devices && several ? `No host has ${place.devices_at_once} healthy devices of type ${types}, which are needed at once: it would wait until they come.` : `No healthy device of type ${types} is there: it would wait until one comes.`;
  const before = place.jobs_before ? `${many(place.jobs_before, "job")} of the same or a higher priority wait before it` : "nothing waits before it";
  const begins = place.overdue ? `the job there is overdue: it takes longer than expected, and nobody knows when it ends${place.wait_s ? `; the first job begins in ${duration(place.wait_s)} at the earliest` : ""}` : `the first job is expected to begin in ${duration(place.wait_s)}`;
  return `${many(place.devices, "device")} of type ${types}${several ? `, ${place.devices_at_once} of one host needed at once` : ""}; ${before}; ${begins}.`;
}

function showPlan(of) {
  const jobs = of.jobs === 1 ? "One job" : `${of.jobs} jobs`;
  // The same as words, for who can't see the picture.
  const list = make("ol", null, { class: "unseen", "aria-label": "Stages in their order" });
  for (const stage of of.stages) list.append(make("li", `${stage.name}${stage.of_submission || of.jobs === 1 ? "" : ` × ${stage.jobs}`}${stage.leased ? ", while the job holds its device" : stage.of_submission ? ", once, after all jobs" : ""}`));
  const graph = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": "The plan as a graph" });
  graph.append(graphOf(of), list);
  const all = of.on_these_devices_s === null ? "" : `, about ${duration(of.on_these_devices_s)} on the devices that are here`;
  // A job that holds several devices takes as much of each of them.
  const held = of.devices_of_a_job === 1 ? " of device time" : of.jobs === 1 ? " on them" : ", one job after the other";
  // No job holds both: where both are told they are of different jobs of a sweep.
  const parts = [
    make("p", `${jobs} on ${of.device}${of.devices_of_a_job > 1 ? `, ${of.devices_of_a_job} devices of one host at once` : ""}${of.hosts_elsewhere ? `, ${of.devices_of_a_job > 1 ? "or " : ""}with one of ${of.hosts_elsewhere > 1 ? `each of ${of.hosts_elsewhere} other hosts` : "another host"} at once` : ""}: expected to take ${duration(of.expected_s)}${held}${all}${of.known_jobs ? `, as earlier runs of ${of.known_jobs === of.jobs ? (of.jobs === 1 ? "it" : "them") : `${of.known_jobs} of them`} took it` : ", which no run of it has shown yet"}.`),
    graph,
    ...(of.places.length ? of.places.map(placeText) : ["No worker has registered a device: jobs take turns on this machine."]).map((text) => make("p", text)),
  ];
  parts.splice(1, 0, ...of.remarks.map((text) => make("p", text, { class: "note" })));
  if (of.jobs > 1) {
    const fold = make("details"), points = make("ol");
    of.points.forEach((point, index) => points.append(make("li", `${pointText(point)}: about ${duration(of.points_s[index])}`)));
    fold.append(make("summary", of.points.length < of.jobs ? `The first ${of.points.length} points` : "The points"), points);
    parts.push(fold);
  }
  plan.replaceChildren(...parts);
}

async function check() {
  const text = area.value;
  checking.abort?.abort();
  checking.abort = new AbortController();
  try {
    const answer = await ask("submissions/plan", { submission: text }, checking.abort.signal), body = await answer.json();
    if (text !== area.value) return;
    const good = answer.ok;
    checking.text = good ? text : null;
    checks.textContent = "";
    send.disabled = !good;
    showProblems(good || !Array.isArray(body.detail) ? [] : body.detail, text);
    if (good) showPlan(body);
    else plan.replaceChildren(make("p", Array.isArray(body.detail) ? `Not yet: ${body.detail.length === 1 ? "one thing is" : `${body.detail.length} things are`} wrong.` : String(body.detail), { class: "soft" }));
  } catch (problem) {
    if (problem.name === "AbortError") return;
    checks.textContent = "";
    plan.replaceChildren(make("p", `It can't be checked now: ${problem.message}`, { class: "problem", role: "alert" }));
  }
}

// Line by line: what was there and what is; the longest common part stays.
function difference(old, now) {
  const a = old.split("\n"), b = now.split("\n");
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  if (x.length * y.length > 4e6) return [...x.map((text) => ["-", text, head]), ...y.map((text) => ["+", text, head])];
  const best = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) best[i][j] = x[i] === y[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const rows = [];
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    if (i < x.length && j < y.length && x[i] === y[j]) { i++; j++; }
    else if (j >= y.length || (i < x.length && best[i + 1][j] >= best[i][j + 1])) rows.push(["-", x[i++]]);
    else rows.push(["+", y[j++]]);
  }
  return rows;
}

let before = began;
function showChanges() {
  const rows = difference(before, area.value);
  document.getElementById("changed").textContent = rows.length ? `${rows.length} line${rows.length === 1 ? "" : "s"}` : "none";
  document.getElementById("diff").replaceChildren(...rows.map(([sign, text]) => make(sign === "+" ? "ins" : "del", `${sign} ${text}`)));
}

// What any run asked for can stand for what was there before; its page of this editor has it in its words.
const against = document.getElementById("against");
against.addEventListener("focus", async () => {
  const answer = await fetch("/inferbench/api/runs?limit=30", { credentials: "same-origin" });
  if (answer.ok) document.getElementById("past").replaceChildren(...(await answer.json()).items.map((of) => make("option", null, { value: of.run })));
}, { once: true });
against.addEventListener("change", async () => {
  const run = against.value.trim(), told = document.getElementById("past-told");
  told.textContent = "";
  before = began;
  if (run) {
    const answer = await fetch(`/inferbench/new?run=${encodeURIComponent(run)}`, { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"), problem = page.querySelector("[role=alert]");
    if (!answer.ok || problem) told.textContent = problem ? problem.textContent : `${answer.status} ${answer.statusText}`;
    else before = page.getElementById("yaml").value;
  }
  showChanges();
});

// Sent, then followed until its first run has a page of its own.
async function follows(status) {
  for (;;) {
    await new Promise((go) => setTimeout(go, 1500));
    const answer = await fetch(status, { credentials: "same-origin" });
    if (!answer.ok) continue; // the server may be busy; the submission is not lost by that
    const of = await answer.json(), runs = Object.keys(of.verdicts);
    if (runs.length) { location.assign(`/inferbench/run/${encodeURIComponent(runs.sort()[0])}`); return; }
    if (of.state === "failed") { sent.textContent = of.problems.map((problem) => problem.message || problem.msg).join("; ") || "It failed before any of its jobs began."; send.disabled = false; return; }
    sent.textContent = `Sent: ${of.state}. Its page opens when the first job begins.`;
  }
}

send.addEventListener("click", async () => {
  if (checking.text !== area.value) return;
  send.disabled = true;
  sent.textContent = "Being sent …";
  try {
    const answer = await ask("submissions", { submission: area.value }), body = await answer.json();
    if (answer.ok) { sent.textContent = "Sent."; await follows(body.status); return; }
    sent.textContent = Array.isArray(body.detail) ? body.detail.map((of) => of.msg).join("; ") : String(body.detail);
  } catch (problem) { sent.textContent = `It can't be sent now: ${problem.message}`; }
  send.disabled = false;
});
// What was found wrong with an older text is said no more; the plan of one stays until there is another.
function checkSoon() {
  send.disabled = true;
  checks.textContent = "Being checked …";
  if (checking.text === null) plan.replaceChildren();
  clearTimeout(checking.timer);
  checking.timer = setTimeout(check, 350);
  showChanges();
}
area.addEventListener("input", checkSoon);
showChanges();
if (area.value.trim()) { checks.textContent = "Being checked …"; check(); }
else plan.replaceChildren(make("p", "Type a submission, or begin with one of those below.", { class: "soft" }));
