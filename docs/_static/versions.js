// Offers the other versions where a site has several side by side (`make docs INTO=folder`); a single one has no list.
(async () => {
  const place = document.querySelector(".aim-versions");
  const root = new URL(place.dataset.root || "./", document.baseURI);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  if (!answer || !answer.ok) return;
  const choice = place.querySelector("select");
  for (const one of await answer.json()) {
    choice.add(new Option(one, one, false, one === place.dataset.version));
  }
  const page = document.baseURI.slice(root.href.length);
  choice.addEventListener("change", async () => {
    const other = new URL(`../${choice.value}/`, root);
    const same = await fetch(new URL(page, other), { method: "HEAD" }).catch(() => null);
    location.href = same && same.ok ? new URL(page, other) : new URL("index.html", other);
  });
  place.hidden = choice.length < 2;
})();
