"use strict";

// On paper a page is whole: nothing is folded, and charts have the colours that are meant for it.
let folded = null; // while it is printed: those that were
const printing = () => folded !== null;

// A light page has its charts as they are.
function recolour() {
  if (document.documentElement.dataset.theme !== "dark") return;
  for (const [element, chart] of drawn) {
    const { data, layout } = printing() ? chart : inTheDark(chart);
    Plotly.react(element, data, { ...layout, autosize: true });
  }
}

addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open], .how)")];
  for (const fold of folded) fold.open = true;
  showSeen();
  recolour();
});
addEventListener("afterprint", () => {
  for (const fold of folded ?? []) fold.open = false;
  // Once the page has told its parts that they are folded again.
  setTimeout(() => { folded = null; recolour(); });
});
