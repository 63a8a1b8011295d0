"use strict";

// Beside each bound a slider over the values that the results have which the form's conditions leave, by equal factors
// where all are above 0; figures without a value are not offered, and the loads are those that there are.
const asking = document.querySelector("form.filters"), sliders = [];
let asks = 0; // of several answers on their way the last question's counts

function filled() {
  const query = new URLSearchParams();
  for (const name of ["model", "backend", "device", "user", "since", "until", "q", "load"]) { const value = asking.elements[name]?.value.trim(); if (value) query.set(name, value); }
  for (const figure of new Set([...document.querySelectorAll("[name=bounded]")].map((of) => of.value).filter(Boolean))) query.append("figure", figure);
  return query;
}

function offer(select, figures, none) {
  const kept = [...select.options].find((of) => of.selected && of.value);
  const options = figures.map((of) => { const option = element("option", of.name, { value: of.name, title: of.meaning }); option.dataset.sign = of.sign; return option; });
  if (kept && !figures.some((of) => of.name === kept.value)) options.push(kept); // what is chosen stays, whatever is left
  select.replaceChildren(...(none ? [element("option", "none", { value: "" })] : []), ...options);
  select.value = kept ? kept.value : "";
}

async function askWhatThereIs() {
  const mine = ++asks, answer = await fetch(`/inferbench/recommend/offers?${filled()}`, { credentials: "same-origin" }).catch(() => null);
  const of = answer?.ok ? await answer.json() : null; // without it the fields are enough
  if (mine !== asks) return;
  if (of) {
    offer(asking.elements.by, of.figures, false);
    for (const select of document.querySelectorAll("[name=bounded]")) offer(select, of.figures, true);
    document.getElementById("loads").replaceChildren(...of.loads.map((load) => element("option", null, { value: load })));
  }
  for (const each of sliders) each(of ? of.ranges : {});
}

for (const bound of document.querySelectorAll("fieldset.bound")) {
  const figure = bound.querySelector("[name=bounded]"), value = bound.querySelector("[name=value]"), slider = bound.querySelector(".slider");
  let range = null;
  const at = (share) => { const [low, high] = range; return low > 0 ? low * (high / low) ** share : low + (high - low) * share; };
  const shareOf = (number) => { const [low, high] = range; return low > 0 ? Math.log(Math.max(number, low) / low) / Math.log(high / low) : (number - low) / (high - low); };
  const follow = () => {
    slider.disabled = !range || range[0] === range[1];
    if (!slider.disabled) slider.value = Math.round(1000 * (value.value === "" ? 1 : Math.min(1, Math.max(0, shareOf(Number(value.value))))));
    slider.setAttribute("aria-valuetext", value.value === "" ? "no value yet" : value.value);
    slider.title = range ? `${Number(range[0].toPrecision(3))} to ${Number(range[1].toPrecision(3))} in the results that match` : "";
  };
  slider.addEventListener("input", () => { value.value = Number(at(slider.value / 1000).toPrecision(3)); slider.setAttribute("aria-valuetext", value.value); });
  value.addEventListener("input", follow);
  sliders.push((ranges) => { range = ranges[figure.value] ?? null; follow(); });
}
// A bound's value and its side change nothing of what there is.
asking.addEventListener("change", (event) => { if (!["value", "sign", "by"].includes(event.target.name) && !event.target.classList.contains("slider")) askWhatThereIs(); });
askWhatThereIs();
