"use strict";
// Before the page is drawn: the theme chosen in Airflow, else the system's; and whether we are inside Airflow's frame.
(() => {
  const root = document.documentElement;
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* storage may be closed to us */ }
  if (theme !== "light" && theme !== "dark") theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = theme;
  if (window.parent !== window) root.classList.add("framed");
})();
