"use strict";

// The folded parts of a long page: which are open stands in its address (#a,b), so that it opens as it was left and one
// part can be sent to somebody. Without one those are open that the server says.
const folds = [...document.querySelectorAll("details.part[id]")], openAtFirst = folds.filter((of) => of.open);
const openNow = () => folds.filter((of) => of.open), namesOf = (parts) => parts.map((of) => of.id).join(",");

function openAsAsked() {
  const asked = location.hash.slice(1).split(",").filter((id) => folds.some((of) => of.id === id));
  const open = location.hash === "#-" ? [] : asked.length ? asked : null;
  if (open) for (const fold of folds) fold.open = open.includes(fold.id);
  if (asked.length) document.getElementById(asked[0]).scrollIntoView();
}

function foldsInAddress() {
  if (printing()) return; // then all are open, and nobody chose it
  const names = namesOf(openNow());
  const hash = names === namesOf(openAtFirst) ? "" : `#${names || "-"}`;
  if (location.hash !== hash) history.replaceState(null, "", location.pathname + location.search + hash);
  const all = openNow().length === folds.length;
  for (const button of document.querySelectorAll("[data-unfold]")) { button.textContent = all ? "Fold all" : "Unfold all"; button.hidden = folds.length < 2; }
}

addEventListener("DOMContentLoaded", () => { openAsAsked(); foldsInAddress(); });
addEventListener("hashchange", openAsAsked);
for (const fold of folds) fold.addEventListener("toggle", foldsInAddress);
for (const button of document.querySelectorAll("[data-unfold]")) {
  button.addEventListener("click", () => { const open = openNow().length < folds.length; for (const fold of folds) fold.open = open; });
}
