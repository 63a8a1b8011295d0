"use strict";

// Hands the trace to Perfetto, once it says that it listens; by its own messages (PING, PONG, {perfetto: {buffer}}).
const frame = document.getElementById("perfetto"), said = document.getElementById("perfetto-told");

async function hand() {
  let listens = false;
  const asking = setInterval(() => frame.contentDocument?.readyState === "complete" && frame.contentWindow.postMessage("PING", location.origin), 200);
  const ready = new Promise((resolve) => addEventListener("message", (event) => { if (event.source === frame.contentWindow && event.data === "PONG" && !listens) { listens = true; clearInterval(asking); resolve(); } }));
  try {
    const answer = await fetch(frame.dataset.trace, { credentials: "same-origin" });
    if (!answer.ok) throw new Error((await answer.json()).detail);
    const buffer = await answer.arrayBuffer();
    await ready;
    frame.contentWindow.postMessage({ perfetto: { buffer, title: frame.dataset.title, fileName: "trace.json", keepApiOpen: false } }, location.origin, [buffer]);
    said.textContent = `${frame.dataset.spans} spans were handed to Perfetto.`;
  } catch (problem) { said.textContent = `The trace can't be opened: ${problem.message}`; }
  clearInterval(asking);
}

if (frame) addEventListener("DOMContentLoaded", hand);
