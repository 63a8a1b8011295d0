"use strict";

// The editor of a submission: a text area, with lines, marks and completion around it.
const area = document.getElementById("yaml"), about = document.getElementById("about"), tip = document.getElementById("tip");
const gutter = document.querySelector(".gutter"), lens = document.querySelector(".lens"), choices = document.getElementById("choices");
const LINE_PX = 20, PADDING_PX = [8, 10]; // as inferbench.css has them
const editor = { problems: [], schemas: new Map(), chosen: -1, offered: [] };
const CHARACTER_PX = (() => { const pen = document.createElement("canvas").getContext("2d"); pen.font = getComputedStyle(area).font; return pen.measureText("0".repeat(100)).width / 100; })();

function make(name, text = null, attributes = {}) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The schema of the kind that the text names; null until it is there.
function schema() {
  const kind = /^kind:\s*([\w.-]+)/m.exec(area.value)?.[1] || "serving";
  if (!editor.schemas.has(kind)) {
    editor.schemas.set(kind, null);
    fetch(`/inferbench/api/schema/${encodeURIComponent(kind)}`, { credentials: "same-origin" }).then(async (answer) => {
      if (answer.ok) { editor.schemas.set(kind, new Schema(await answer.json())); tell(); }
    }).catch(() => editor.schemas.delete(kind)); // asked for again at the next key
  }
  return editor.schemas.get(kind);
}

// What is wrong with a line was said of its words: of others there nothing is known until they are checked.
const stillSaid = (problem, lines) => !problem.line || lines[problem.line - 1] === problem.words;

// Lines, and behind the text what is wrong with it; the text area itself stays plain.
function drawMarks() {
  const lines = area.value.split("\n"), wrong = new Map();
  for (const problem of editor.problems) if (problem.line && stillSaid(problem, lines)) wrong.set(problem.line, [...(wrong.get(problem.line) || []), problem.msg]);
  gutter.replaceChildren(...lines.map((_, i) => make("span", `${i + 1}\n`, wrong.has(i + 1) ? { class: "wrong" } : {})));
  lens.replaceChildren(...lines.flatMap((line, i) => {
    if (!wrong.has(i + 1)) return [document.createTextNode(`${line}\n`)];
    const lead = /^\s*/.exec(line)[0];
    return [document.createTextNode(lead), make("span", line.slice(lead.length) || " ", { class: "wrong" }), make("span", wrong.get(i + 1).join("; "), { class: "said" }), document.createTextNode("\n")];
  }));
  follow();
}

function follow() {
  gutter.scrollTop = area.scrollTop;
  lens.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`;
}

const dottedField = (problem) => problem.loc.slice(1).join(".");

// What a problem's own words say that was meant: [what stands there, what to write], or null.
function remedy(problem) {
  const meant = /did you mean '([^']+)'/.exec(problem.msg);
  if (!meant || !problem.line) return null;
  const key = /unknown key/.test(problem.msg), wrong = key ? dottedField(problem).split(".").pop() : /'([^']+)'/.exec(problem.msg)[1];
  const line = area.value.split("\n")[problem.line - 1] ?? "", plain = wrong.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const found = new RegExp(`(?<![\\w.-])${plain}(?![\\w-])${key ? "(?=['\"]?\\s*:)" : ""}`).exec(line);
  return found && { from: found.index, length: wrong.length, text: meant[1], row: problem.line - 1 };
}

function mend(change) {
  const lines = area.value.split("\n"), start = lines.slice(0, change.row).reduce((sum, line) => sum + line.length + 1, 0) + change.from;
  area.focus();
  area.setRangeText(change.text, start, start + change.length, "end");
  area.dispatchEvent(new Event("input"));
}

// ``text``: what was checked.
function showProblems(problems, text) {
  const lines = text.split("\n");
  editor.problems = problems.map((problem) => ({ ...problem, words: problem.line ? lines[problem.line - 1] : undefined }));
  listProblems();
}

function listProblems() {
  drawMarks();
  const lines = area.value.split("\n"), problems = editor.problems.filter((problem) => stillSaid(problem, lines)), list = make("ol");
  for (const problem of problems) {
    const item = make("li"), where = [problem.line ? `line ${problem.line}` : "", dottedField(problem)].filter((text) => text && text !== "submission").join(", ");
    // What there is to do stands before what else is allowed, which may be forty names.
    const [, said, allowed] = /^(.*?)(?: ((?:allowed|known): .{120,}))?$/s.exec(problem.msg);
    item.append(make("b", where ? `${where}: ` : ""), document.createTextNode(said));
    const change = remedy(problem);
    if (change) { const button = make("button", `Write ${change.text}`, { type: "button" }); button.addEventListener("click", () => mend(change)); item.append(button); }
    if (allowed) { const fold = make("details"); fold.append(make("summary", allowed.startsWith("known") ? "What is known" : "What is allowed"), make("span", allowed)); item.append(fold); }
    list.append(item);
  }
  document.getElementById("problems").replaceChildren(...(problems.length ? [list] : []));
}

// The key at a row and column, or whose value stands there.
function keyAt(row, column) {
  const { entries } = scanYaml(area.value);
  return entries.filter((of) => of.row === row && of.from <= column).pop();
}

function words(entry) {
  const known = schema(), { entries } = scanYaml(area.value);
  const path = entry.path[0] === "sweep" && entry.path.length > 1 ? entry.key.split(".") : entry.path;
  const field = known && known.field(path, entries);
  return field ? describe(path, field) : null;
}

// Of the key where the caret is.
function tell() {
  const before = area.value.slice(0, area.selectionStart), row = before.split("\n").length - 1, column = before.length - before.lastIndexOf("\n") - 1;
  const entry = keyAt(row, column), text = entry && words(entry);
  if (text) about.textContent = text;
}

function hover(event) {
  const box = area.getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top + area.scrollTop - PADDING_PX[0]) / LINE_PX), column = Math.floor((event.clientX - box.left + area.scrollLeft - PADDING_PX[1]) / CHARACTER_PX);
  const entry = keyAt(row, column), text = entry && column <= (area.value.split("\n")[row] || "").length && choices.hidden ? words(entry) : null;
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width * 0.4)}px`;
  tip.style.top = `${(row + 1) * LINE_PX + PADDING_PX[0] - area.scrollTop + 4}px`;
}

function offer(asked) {
  const known = schema();
  if (!known || area.selectionStart !== area.selectionEnd) return close();
  const { entries } = scanYaml(area.value), place = placeIn(area.value, area.selectionStart);
  if (!asked && !place.word) return close();
  const items = place.key !== null
    ? known.values([...place.path, place.key], entries).map((text) => ({ text, soft: "" }))
    : [...known.keys(place.path, entries)].map(([text, field]) => ({ text, key: true, field, soft: field?.required ? "needed" : field?.default !== undefined && typeof field.default !== "object" ? String(field.default) : "" }));
  const low = place.word.toLowerCase(), fit = items.filter(({ text }) => text.toLowerCase().includes(low) && text !== place.word);
  fit.sort((a, b) => b.text.toLowerCase().startsWith(low) - a.text.toLowerCase().startsWith(low));
  editor.offered = fit.slice(0, 40).map((item) => ({ ...item, word: place.word, path: place.path }));
  if (!fit.length) return close();
  choices.replaceChildren(...editor.offered.map((item, i) => {
    const option = make("li", item.text, { role: "option", id: `choice-${i}`, "aria-selected": "false" });
    if (item.soft) option.append(make("span", item.soft, { class: "soft" }));
    option.addEventListener("pointerdown", (event) => { event.preventDefault(); take(i); });
    return option;
  }));
  const before = area.value.slice(0, area.selectionStart), row = before.split("\n").length, column = before.length - before.lastIndexOf("\n") - 1 - place.word.length;
  choices.style.top = `${Math.min(row * LINE_PX + PADDING_PX[0] - area.scrollTop, area.clientHeight - 60)}px`;
  choices.style.left = `${Math.min(PADDING_PX[1] + column * CHARACTER_PX - area.scrollLeft, area.clientWidth * 0.6)}px`;
  choices.hidden = false;
  tip.hidden = true;
  choose(asked ? 0 : -1);
}

function choose(index) {
  editor.chosen = index;
  for (const [i, option] of [...choices.children].entries()) option.setAttribute("aria-selected", String(i === index));
  if (index < 0) { area.removeAttribute("aria-activedescendant"); return; }
  area.setAttribute("aria-activedescendant", `choice-${index}`);
  choices.children[index].scrollIntoView({ block: "nearest" });
  const item = editor.offered[index];
  if (item.field) about.textContent = describe([...item.path, item.text], item.field);
}

function close() { choices.hidden = true; choose(-1); }

function take(index) {
  const item = editor.offered[index], caret = area.selectionStart;
  close();
  area.setRangeText(item.key ? `${item.text}: ` : item.text, caret - item.word.length, caret, "end");
  area.dispatchEvent(new Event("input"));
  close();
  tell();
}

area.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.code === "Space") { event.preventDefault(); offer(true); return; }
  if (choices.hidden) {
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) { // the next line stands under this one
      const line = area.value.slice(0, area.selectionStart).split("\n").pop(), indent = /^\s*/.exec(line)[0] + (/:\s*$/.test(line) ? "  " : "");
      event.preventDefault();
      area.setRangeText(`\n${indent}`, area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
    }
    return;
  }
  const count = editor.offered.length;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose((editor.chosen + (event.key === "ArrowDown" ? 1 : count + (editor.chosen < 0 ? 0 : -1))) % count); }
  else if ((event.key === "Enter" || event.key === "Tab") && editor.chosen >= 0) { event.preventDefault(); take(editor.chosen); }
  else if (event.key === "Escape") { event.preventDefault(); close(); }
  else if (["Enter", "Tab", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) close();
});
area.addEventListener("input", (event) => { listProblems(); if (event instanceof InputEvent && event.inputType !== "insertLineBreak") offer(false); });
area.addEventListener("scroll", () => { follow(); close(); tip.hidden = true; });
area.addEventListener("mousemove", hover);
area.addEventListener("mouseleave", () => { tip.hidden = true; });
area.addEventListener("blur", close);
document.addEventListener("selectionchange", () => { if (document.activeElement === area && choices.hidden) tell(); });
schema();
drawMarks();
