// News that something changed: this page is fetched again and its content replaced, unless the user is in the middle of it.
"use strict";
const live = document.getElementById("live");
let waiting = false;

function busy() {
  const at = document.activeElement;
  const selected = window.getSelection();
  return document.hidden || (at && /^(INPUT|SELECT)$/.test(at.tagName)) || (selected && !selected.isCollapsed);
}

// Everything that a reader may have in hand, by a name that the new content has for it as well.
function named(content) {
  const found = new Map();
  for (const one of content.querySelectorAll("section, details, summary, input, select, a[href]")) {
    const section = one.closest("section");
    const own = one.getAttribute("href") || one.getAttribute("name") || "";
    const name = [section ? section.getAttribute("aria-labelledby") : "", one.tagName, own].join(" ");
    let number = 0;
    while (found.has(`${name} ${number}`)) { number += 1; }
    found.set(`${name} ${number}`, one);
  }
  return found;
}

function kept(content) {
  return [...named(content)].map(([name, one]) => ({
    name, open: one.open, value: one.value, left: one.scrollLeft, top: one.getBoundingClientRect().top,
    focused: one === document.activeElement, caret: one.type === "search" ? one.selectionStart : null,
  }));
}

// The same links stay where they were on the screen, whatever came above them.
function restore(content, before) {
  const now = named(content);
  const there = before.filter((one) => now.has(one.name));
  for (const one of there) {
    const fresh = now.get(one.name);
    if (fresh.tagName === "DETAILS") { fresh.open = one.open; }
    if (/^(INPUT|SELECT)$/.test(fresh.tagName)) { fresh.value = one.value; }
    fresh.scrollLeft = one.left;
    if (one.focused) { fresh.focus({ preventScroll: true }); }
    if (one.focused && one.caret !== null) { fresh.setSelectionRange(one.caret, one.caret); }
  }
  const anchor = there.find((one) => one.focused) || there.find((one) => one.top >= 0);
  if (window.scrollY > 0 && anchor) {
    window.scrollBy({ top: now.get(anchor.name).getBoundingClientRect().top - anchor.top, behavior: "instant" });
  }
}

function tell() {
  live.textContent = document.querySelector("[data-lost]") ? "waiting for the broker" : "live";
}

async function renew() {
  if (busy()) { waiting = true; return; }
  waiting = false;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  // The session has ended; the address leads to the form now.
  if (answer.status === 401) { location.reload(); }
  if (!answer.ok) { return; }
  const text = await answer.text();
  // Who began to type while the answer was under way is not disturbed either.
  if (busy()) { waiting = true; return; }
  show(text);
}

function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  const shown = document.getElementById("main");
  if (!fresh) { return; }
  shown.toggleAttribute("data-lost", fresh.hasAttribute("data-lost"));
  tell();
  if (fresh.innerHTML === shown.innerHTML) { return; }
  const before = kept(shown);
  shown.replaceChildren(...fresh.childNodes);
  restore(shown, before);
}

// A filter takes effect while one types, and stands in the address.
let filters = 0;

async function narrow(form) {
  const filter = ++filters;
  const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  const address = `${form.getAttribute("action")}${asked.size ? "?" : ""}${asked}`;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const text = await answer.text();
  if (!answer.ok || filter !== filters) { return; }
  history.replaceState(null, "", address);
  show(text);
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form.filter");
  if (!form) { return; }
  const latest = ++filters;
  setTimeout(() => { if (latest === filters) { narrow(form); } }, event.target.tagName === "SELECT" ? 0 : 150);
});
document.addEventListener("submit", (event) => {
  if (event.target.matches("form.filter")) { event.preventDefault(); narrow(event.target); }
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) { return; }
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
// Buttons that only a script needs, or that it needs no more.
document.documentElement.classList.add("script");
if (navigator.clipboard) { document.documentElement.classList.add("clipboard"); }

// The slider through time: what its place means is told while it moves, and shown when it rests there.
let journeys = 0;

function stop(slider) { return slider.list.options[slider.value].dataset; }

async function travel(slider) {
  const journey = ++journeys;
  const address = `?at=${encodeURIComponent(stop(slider).at)}`;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const text = await answer.text();
  if (answer.status === 429 && journey === journeys) {
    const seconds = Number(answer.headers.get("Retry-After")) || 1;
    setTimeout(() => { if (journey === journeys) { travel(slider); } }, 1000 * seconds);
  }
  // Who went on meanwhile wants to see where that leads.
  if (!answer.ok || journey !== journeys) { return; }
  history.replaceState(null, "", address);
  show(text);
}

document.addEventListener("input", (event) => {
  if (event.target.type !== "range") { return; }
  const { at, what } = stop(event.target);
  event.target.setAttribute("aria-valuetext", what);
  document.querySelector(".past .what").textContent = `${at.slice(0, 23).replace("T", " ")} ${what}`;
});
document.addEventListener("change", (event) => { if (event.target.type === "range") { travel(event.target); } });

// What reads the log or asks the API server shows the moment of the request.
if (!/\/(events|others|story|past|replay|holes)(\/|$)/.test(location.pathname)) {
  const news = new EventSource("/live");
  let known = null;
  news.onopen = tell;
  news.onerror = () => {
    live.textContent = "not connected; aim console has ended or is starting again";
    if (news.readyState === EventSource.CLOSED) { renew(); }
  };
  news.onmessage = (event) => {
    tell();
    if (known !== null && event.data !== known) { renew(); }
    known = event.data;
  };
  document.addEventListener("visibilitychange", () => { if (waiting) { renew(); } });
  document.addEventListener("focusout", () => { if (waiting) { setTimeout(renew, 50); } });
  document.addEventListener("selectionchange", () => { if (waiting) { setTimeout(renew, 50); } });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement.tagName !== "INPUT") {
    const find = document.querySelector("input[type=search]");
    if (find) { event.preventDefault(); find.focus(); find.select(); }
  }
});
