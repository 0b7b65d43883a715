// Selects the visible rows of a sequence chart: filters, and folds of similar frames.
const LEAST_HANDSHAKE = 3;
const LONGEST_RUN = 12;
const KEPT_OF_RUN = 3;

const WORDS = { step: "steps", cut: "cuts" };
// The types of a row in the list of types; all chips of states are one type, other chips one type each.
const typesOf = (row) => {
  if (row.kind === "frame") return [row.tag];
  if (row.kind === "marks") return row.chips.map((chip) => (chip.session !== undefined ? "states" : chip.look));
  return row.kind === "gap" ? [] : [WORDS[row.kind]];
};
const lanesOf = (row) => {
  if (row.kind === "marks") return [row.lane];
  return row.from === undefined ? [] : [row.from, row.to];
};
const textOf = (row) => {
  const parts = [row.tag, row.text, row.tip, ...(row.lines ?? []),
    ...(row.chips ?? []).flatMap((c) => [c.text, c.tip])];
  return parts.filter(Boolean).join("\n").toLowerCase();
};

class Selection {
  constructor(rows) {
    this.rows = rows;
    this.hiddenLanes = new Set();
    this.hiddenTypes = new Set();
    this.text = "";
    this.foldsHandshakes = rows.length > 100;
    this.foldsRuns = true;
    this.unfolded = new Set();
  }

  shows(row) {
    if (row.kind === "gap") return !this.text;
    if (lanesOf(row).some((lane) => this.hiddenLanes.has(lane))) return false;
    if (typesOf(row).every((type) => this.hiddenTypes.has(type))) return false;
    return !this.text || textOf(row).includes(this.text);
  }

  // Rows to draw, each with its index in all rows; a fold represents the rows that it hides.
  view() {
    const shown = [];
    this.rows.forEach((row, place) => { if (this.shows(row)) shown.push({ row, place }); });
    const view = [];
    for (let start = 0; start < shown.length;) {
      const family = this.foldedFamily(shown[start].row);
      let end = start + 1;
      if (family) while (end < shown.length && this.foldedFamily(shown[end].row) === family) end++;
      this.addRun(view, shown.slice(start, end), family);
      start = end;
    }
    return view;
  }

  foldedFamily(row) {
    if (row.kind !== "frame" || row.family === "session") return "";
    if (row.family === "handshake") return this.foldsHandshakes ? "handshake" : "";
    return !this.foldsRuns ? "" : row.fate === "lost" ? "data lost" : "data";
  }

  addRun(view, run, family) {
    const isData = family.startsWith("data");
    const kept = isData ? KEPT_OF_RUN : 0;
    const long = isData ? run.length > LONGEST_RUN : family && run.length >= LEAST_HANDSHAKE;
    const first = run[kept];
    if (!long || this.unfolded.has(first.place)) {
      for (const item of run) view.push(item);
      return;
    }
    const hidden = run.slice(kept, run.length - kept);
    view.push(...run.slice(0, kept), { row: fold(hidden, family), place: first.place },
      ...run.slice(run.length - kept));
  }
}

const fold = (hidden, family) => {
  const rows = hidden.map((item) => item.row);
  const counts = new Map();
  for (const row of rows) counts.set(row.tag, (counts.get(row.tag) ?? 0) + 1);
  const tags = [...counts].map(([tag, count]) => (count > 1 ? `${count} ${tag}` : tag)).join(", ");
  const lanes = rows.flatMap(lanesOf);
  const last = rows[rows.length - 1].time;
  return {
    kind: "fold", time: rows[0].time, from: Math.min(...new Set(lanes)), to: Math.max(...new Set(lanes)),
      family,
    text: `${rows.length} ${family === "handshake" ? "handshake frames" : "frames"}: ${tags}`,
    tip: `${rows.length} frames from ${rows[0].time.toFixed(6)} s to ${last.toFixed(6)} s\n${tags}`,
    lost: rows.filter((row) => row.fate === "lost").length,
  };
};
