"use strict";

// Two traces side by side, each from the beginning of its request on, with as many pixels a millisecond.
const sides = [...document.querySelectorAll(".side")].map((place, number) => {
  const told = (name, text) => { place.querySelector(`[data-told=${name}]`).textContent = text; };
  const picture = new Boxes(place.querySelector("canvas"), { told: place.querySelector("[data-told=at]"), unit: axisMs, choose: (at) => told("span", at < 0 ? "\u00a0" : side.spans.told(at)), moved: (view) => follow(number, view) });
  const side = { place, picture, told, spans: null, begun: 0 };
  buttons(picture);
  return side;
});

// The other one shows the same span of time, from its own request's beginning.
function follow(number, [from, to]) {
  const own = sides[number], other = sides[1 - number];
  if (other.spans && own.spans) other.picture.look(other.begun + from - own.begun, other.begun + to - own.begun, true);
}

function begin() {
  if (sides.some((side) => !side.spans)) return;
  let longest = 0;
  for (const side of sides) {
    const field = side.place.querySelector("input"), at = Math.min(Math.max(Number(field.value) - 1 || 0, 0), side.spans.begins.length - 1);
    field.value = at + 1;
    side.begun = side.picture.data.origin = side.spans.begins[at];
    side.told("request", `of ${count(side.spans.begins.length)}, ${figure(ms(side.spans.ends[at] - side.begun))} ms${side.spans.partOf(at)}${side.spans.lacking(side.place.dataset.noun)}`);
    longest = Math.max(longest, side.spans.ends[at] - side.begun);
  }
  for (const side of sides) side.picture.look(side.begun - 0.01 * longest, side.begun + 1.02 * longest, true);
}

async function loadSides() {
  const page = document.getElementById("traces");
  try {
    for (const side of sides) side.spans = new Spans(await answered(`${side.place.dataset.api}/timeline`));
    const empty = sides.filter((side) => !side.spans.length);
    for (const side of empty) { side.spans = null; side.told("request", "It has no spans."); }
    if (empty.length) { page.removeAttribute("aria-busy"); return; }
    const same = inked(sides.map((side) => side.spans));
    for (const side of sides) {
      Object.assign(side.spans, same);
      side.spans.legend(side.place.querySelector(".legend"));
      side.picture.set(side.spans.boxes());
      side.place.querySelector("input").max = side.spans.begins.length;
    }
    begin();
  } catch (problem) { sides[0].told("span", `The traces can't be shown: ${problem.message}`); }
  page.removeAttribute("aria-busy");
}

for (const side of sides) side.place.querySelector("input").addEventListener("change", begin);
if (sides.length) addEventListener("DOMContentLoaded", loadSides);
