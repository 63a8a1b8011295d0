"use strict";

// Beside each bound a slider over the values that valid results have, by equal factors where all are above 0.
for (const bound of document.querySelectorAll("fieldset.bound")) {
  const figure = bound.querySelector("[name=bounded]"), value = bound.querySelector("[name=value]"), slider = bound.querySelector(".slider");
  let range = null;
  const at = (share) => { const [low, high] = range; return low > 0 ? low * (high / low) ** share : low + (high - low) * share; };
  const shareOf = (number) => { const [low, high] = range; return low > 0 ? Math.log(Math.max(number, low) / low) / Math.log(high / low) : (number - low) / (high - low); };
  const follow = () => {
    slider.disabled = !range || range[0] === range[1];
    if (!slider.disabled) slider.value = Math.round(1000 * (value.value === "" ? 1 : Math.min(1, Math.max(0, shareOf(Number(value.value))))));
    slider.setAttribute("aria-valuetext", value.value === "" ? "no value yet" : value.value);
  };
  slider.addEventListener("input", () => { value.value = Number(at(slider.value / 1000).toPrecision(3)); slider.setAttribute("aria-valuetext", value.value); });
  value.addEventListener("input", follow);
  const ask = async () => {
    range = null;
    follow();
    if (!figure.value) return;
    const answer = await fetch(`/inferbench/api/range?figure=${encodeURIComponent(figure.value)}`, { credentials: "same-origin" });
    const of = answer.ok ? await answer.json() : null; // without it the field is enough
    if (of && of.figure === figure.value && of.low !== null) range = [of.low, of.high];
    follow();
  };
  figure.addEventListener("change", ask);
  ask();
}
