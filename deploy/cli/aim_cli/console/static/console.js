// News that something changed: this page is fetched again and its content replaced, where nobody is in the middle of it.
"use strict";
const live = document.getElementById("live");
let waiting = false;

function busy() {
  const at = document.activeElement;
  const selected = window.getSelection();
  return document.hidden || (at && at.tagName === "INPUT") || (selected && !selected.isCollapsed);
}

async function renew() {
  if (busy()) { waiting = true; return; }
  waiting = false;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) { return; }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  const shown = document.getElementById("main");
  if (!fresh || fresh.innerHTML === shown.innerHTML) { return; }
  const open = [...shown.querySelectorAll("details")].map((one) => one.open);
  const at = document.activeElement && document.activeElement.getAttribute("href");
  shown.replaceChildren(...fresh.childNodes);
  shown.querySelectorAll("details").forEach((one, number) => { one.open = open[number] || false; });
  if (at) { const again = shown.querySelector(`a[href="${CSS.escape(at)}"]`); if (again) { again.focus(); } }
}

// Stories and replays read the log; they are as they were when somebody asked.
if (!/\/(story|replay)$/.test(location.pathname)) {
  const news = new EventSource("/live");
  let known = null;
  news.onopen = () => { live.textContent = "live"; };
  news.onerror = () => { live.textContent = "not connected; aim console has ended or is starting again"; };
  news.onmessage = (event) => {
    live.textContent = "live";
    if (known !== null && event.data !== known) { renew(); }
    known = event.data;
  };
  document.addEventListener("visibilitychange", () => { if (waiting) { renew(); } });
  document.addEventListener("focusout", () => { if (waiting) { setTimeout(renew, 50); } });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement.tagName !== "INPUT") {
    const find = document.querySelector("input[type=search]");
    if (find) { event.preventDefault(); find.focus(); }
  }
});
