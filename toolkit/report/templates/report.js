"use strict";
// Filters by kind: a button per kind, pressed while its rows are shown.
for (const filters of document.querySelectorAll(".filters")) {
  const rows = filters.nextElementSibling.querySelectorAll("tbody tr[data-kind]");
  const apply = (button) => {
    const shown = button.getAttribute("aria-pressed") === "true";
    for (const row of rows) if (row.dataset.kind === button.dataset.kind) row.hidden = !shown;
  };
  for (const button of filters.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
      apply(button);
    });
    apply(button);
  }
  filters.hidden = false;
}
// A link to a row whose kind is filtered out brings the kind back.
const reveal = () => {
  const row = location.hash && document.getElementById(location.hash.slice(1));
  if (!row || !row.hidden) return;
  const filters = row.closest(".events").previousElementSibling;
  filters.querySelector(`[data-kind="${row.dataset.kind}"]`).click();
  row.scrollIntoView({ block: "center" });
};
addEventListener("hashchange", reveal);
reveal();
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const chart of document.querySelectorAll("details.chart")) chart.open = true;
});
