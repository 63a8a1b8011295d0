"use strict";

// A run that goes on tells by itself what is new; where it can't, the page asks again now and then.
const following = document.querySelector("[data-live]");
if (following) {
  const now = following.querySelector("[data-now]"), log = document.getElementById("log"), source = new EventSource(following.dataset.live);
  let told = false, held; // held: what came last while somebody was at something within the part
  const show = (html) => {
    held = undefined;
    if (now.contains(document.activeElement)) held = html;
    else now.innerHTML = html;
  };
  source.addEventListener("now", (event) => {
    told = true;
    show(JSON.parse(event.data));
  });
  // The server tells a part once: what was held is shown when the focus has left.
  now.addEventListener("focusout", () => setTimeout(() => { if (held !== undefined) show(held); }));
  source.addEventListener("log", (event) => {
    const { name, text } = JSON.parse(event.data), place = log.querySelector("pre");
    const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 4;
    log.hidden = false;
    log.querySelector("span").textContent = name;
    place.textContent = text;
    if (atEnd) place.scrollTop = place.scrollHeight;
  });
  source.addEventListener("end", () => { source.close(); location.reload(); }); // the run's page, with its charts
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED || !told) { source.close(); setTimeout(() => location.reload(), 5000); }
  });
  // Nobody is told what nobody sees.
  document.addEventListener("visibilitychange", () => { if (document.hidden) source.close(); else location.reload(); });
}
