// The page: an index with filters, and runs whose contents are created when they are first opened.
const made = new Map();
const contents = (run) => {
  if (made.has(run.id)) return made.get(run.id);
  const values = (name) => JSON.parse(document.getElementById(`${run.id}-${name}`)?.textContent || "null");
  const title = run.querySelector("h2").textContent;
  const chart = values("chart"), events = values("events");
  const found = {
    chart: chart && new SequenceChart(run.querySelector(".chart-place"), chart, title,
      new FrameStore(document.getElementById(`${run.id}-frames`))),
    events: events && new EventList(run.querySelector(".events-place"), events, run.id, title),
  };
  made.set(run.id, found);
  return found;
};
const runs = [...document.querySelectorAll("details.scenario")];
for (const run of runs) {
  run.addEventListener("toggle", () => { if (run.open) contents(run); });
  if (run.open) contents(run);
}

// A link to a run opens it, one to a record shows the record.
const follow = () => {
  const [, id, place] = /^#(s\d+)(?:-(\d+))?$/.exec(location.hash) ?? [];
  const run = id && document.getElementById(id);
  if (!run) return;
  run.hidden = false;
  run.open = true;
  const { events } = contents(run);
  if (place === undefined) run.scrollIntoView();
  else events?.reveal(Number(place));
};
addEventListener("hashchange", follow);
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#s"]');
  if (link && link.hash === location.hash) follow();
});

// The filters of the index: a text, and a button for each verdict.
const index = document.querySelector(".index-tools");
if (index) {
  const search = index.querySelector("input");
  const verdicts = [...index.querySelectorAll("button[data-verdict]")];
  const rows = [...document.querySelectorAll(".summary tbody tr")];
  const status = index.querySelector("[role=status]");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const released = verdicts.filter((each) => each.getAttribute("aria-pressed") === "false");
    const hidden = new Set(released.map((each) => each.dataset.verdict));
    let shown = 0;
    rows.forEach((row, n) => {
      const fits = !hidden.has(row.dataset.verdict) && words.every((word) => texts[n].includes(word));
      row.hidden = runs[n].hidden = !fits;
      shown += fits;
    });
    status.textContent = `${shown} of ${rows.length} runs`;
  };
  search.addEventListener("input", later(apply, 80));
  for (const each of verdicts) {
    each.addEventListener("click",
      () => { each.setAttribute("aria-pressed", each.getAttribute("aria-pressed") === "false"); apply(); });
  }
  index.querySelector(".open-all")?.addEventListener("click", (event) => {
    const open = event.target.textContent === "Open all";
    for (const run of runs) if (!run.hidden) run.open = open;
    event.target.textContent = open ? "Fold all" : "Open all";
  });
  index.hidden = false;
}
for (const each of document.querySelectorAll("[data-copy]")) {
  each.hidden = !navigator.clipboard;
  each.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(each.dataset.copy).textContent);
    each.textContent = "Copied";
    setTimeout(() => { each.textContent = "Copy"; }, 1500);
  });
}
// For printing: draws the whole charts of open runs, since paper cannot be scrolled.
addEventListener("beforeprint", () => {
  for (const run of runs) if (run.open) contents(run).chart?.print();
});
follow();
