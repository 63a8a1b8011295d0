"use strict";

// What a person chose on a page stands in its address, so that it is there again when the page is opened by it.
function ofAddress(name) {
  return new URLSearchParams(location.search).getAll(name);
}

function oneOfAddress(name) {
  return ofAddress(name)[0] ?? null;
}

// ``changes``: name -> its value, or several; null, "" and [] take it away.
function inAddress(changes) {
  const query = new URLSearchParams(location.search), values = (of) => Array.isArray(of) ? of : of === null || of === "" ? [] : [of];
  for (const [name, of] of Object.entries(changes)) { query.delete(name); for (const value of values(of)) query.append(name, value); }
  const text = String(query);
  if (text !== location.search.slice(1)) history.replaceState(null, "", location.pathname + (text ? `?${text}` : "") + location.hash);
}

// Two to six runs can be compared: the button says how many are chosen, the address which.
function countChosen() {
  const boxes = [...document.querySelectorAll("input[type=checkbox][name=run]")], button = document.querySelector("button[data-compare]");
  const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
  if (boxes.length) inAddress({ ticked: chosen });
  if (!button) return;
  button.disabled = chosen.length < 2 || chosen.length > 6;
  if (chosen.length < 2) button.textContent = "Compare: tick 2 to 6 runs";
  else button.textContent = chosen.length > 6 ? `Compare: at most 6 (${chosen.length} chosen)` : `Compare ${chosen.length} chosen`;
}

const ticked = new Set(ofAddress("ticked"));
for (const box of document.querySelectorAll("input[type=checkbox][name=run]")) if (ticked.has(box.value)) box.checked = true;
document.addEventListener("change", (event) => { if (event.target.name === "run") countChosen(); });
// Another order or filter of the same table has the same rows ticked.
document.addEventListener("click", (event) => {
  const link = event.target.closest("main a[href^='?']");
  if (!link || !ofAddress("ticked").length) return;
  const query = new URLSearchParams(link.search);
  query.delete("ticked");
  for (const run of ofAddress("ticked")) query.append("ticked", run);
  link.search = String(query);
}, true);
document.querySelector("form.filters")?.addEventListener("formdata", (event) => { for (const run of ofAddress("ticked")) event.formData.append("ticked", run); });
countChosen();
