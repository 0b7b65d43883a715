// Draws single rows and lanes of a sequence chart as SVG, in pixels at a zoom of 1.
const LABEL_SIZE = 11;
const EM = 0.58;
const HEAD_HEIGHT = 40;
const HEIGHTS = { frame: 31, marks: 27, cut: 38, gap: 30, fold: 31 };
const STEP_LINE = 14;
const wide = (text, size = LABEL_SIZE) => text.length * size * EM;
const fitted = (text, room, size = LABEL_SIZE) => {
  const most = Math.floor(room / (size * EM));
  return text.length <= most ? text : most > 2 ? `${text.slice(0, most - 1)}…` : "";
};

class Geometry {
  constructor(lanes, room) {
    const narrow = room < 620;
    this.gutter = narrow ? 54 : 78;
    this.side = narrow ? 30 : 110;
    const gaps = Math.max(1, lanes.length - 1);
    this.pitch = Math.max(narrow ? 170 : 250, Math.min(480, (room - this.gutter - 2 * this.side - 2) / gaps));
    this.shown = new Map(lanes.map((lane, place) => [lane, this.gutter + this.side + place * this.pitch]));
    this.width = Math.max(room, this.gutter + 2 * this.side + this.pitch * (lanes.length - 1));
  }
  x(lane) { return this.shown.get(lane); }
  height(row) { return row.kind === "step" ? STEP_LINE * row.lines.length + 10 : HEIGHTS[row.kind]; }
}

const line = (x1, y1, x2, y2, look) => svg("line", { x1, y1, x2, y2, class: look });
const label = (x, y, text, look, anchor = "start") =>
  svg("text", { x, y, class: look, "text-anchor": anchor }, text);

const DRAW = {
  frame(row, top, geometry) {
    const [x1, x2] = [geometry.x(row.from), geometry.x(row.to)];
    const sign = x2 >= x1 ? 1 : -1;
    const y = top + 21;
    const spans = Math.max(1, Math.round(Math.abs(x2 - x1) / geometry.pitch));
    const middle = x1 + (((spans - 1) >> 1) + 0.5) * (x2 - x1) / spans;
    const tag = svg("tspan", { class: "tag" }, row.tag);
    const room = geometry.pitch - 20 - wide(row.tag) * 1.15;
    const detail = row.text && svg("tspan", { class: "detail", dx: 6 }, fitted(row.text, room));
    const lost = row.fate === "lost";
    const end = lost ? (x1 + x2) / 2 : x2;
    const tip = lost ? svg("path", { d: `M${end - 5} ${y - 5}l10 10m0 -10l-10 10`, class: "cross" })
      : svg("path", { d: `M${end} ${y}l${-sign * 8} -4.5l0 9z`, class: "tip" });
    const name = svg("text", { x: middle, y: top + 14, class: "label", "text-anchor": "middle" }, tag,
      detail || "");
    return [`${row.family} ${row.fate}`, line(x1, y, lost ? end : end - sign * 4, y, "shaft"), tip, name];
  },
  fold(row, top, geometry) {
    const [x1, x2] = [geometry.x(row.from), geometry.x(row.to)];
    const words = `▸ ${row.text}${row.lost ? `, ${row.lost} never received` : ""}`;
    const text = fitted(words, Math.max(x2 - x1, geometry.pitch) - 16, LABEL_SIZE * 1.15);
    const box = svg("rect", { x: x1 - 8, y: top + 4, width: x2 - x1 + 16, height: 22, rx: 6, class: "fold" });
    return [`folded ${row.family}`, box, label((x1 + x2) / 2, top + 19, text, "tag", "middle")];
  },
  marks(row, top, geometry) {
    const x = geometry.x(row.lane);
    const widths = row.chips.map((chip) => wide(chip.text, 10) * 1.2 + 16);
    const whole = widths.reduce((sum, each) => sum + each + 5, -5);
    let left = Math.max(geometry.gutter, Math.min(x - whole / 2, geometry.width - whole - 6));
    const isLast = geometry.shown.size > 1 && x === Math.max(...geometry.shown.values());
    const note = fitted(row.text, geometry.pitch - whole / 2 - 20);
    const beside = isLast ? [left - 8, "end"] : [left + whole + 8, "start"];
    const words = note && label(beside[0], top + 17, note, "label note", beside[1]);
    const chips = row.chips.map((chip, place) => {
      const box = svg("rect", { x: left, y: top + 4, width: widths[place], height: 18, rx: 9 });
      const name = label(left + widths[place] / 2, top + 16.5, chip.text, "", "middle");
      left += widths[place] + 5;
      return svg("g", { class: `chip ${chip.look === "ready" ? "ready-state" : chip.look}` }, box, name);
    });
    return ["", ...chips, words || ""];
  },
  cut(row, top, geometry) {
    const [x1, x2] = [geometry.x(row.from), geometry.x(row.to)].sort((a, b) => a - b);
    const y = top + 19, teeth = Math.max(2, Math.floor((x2 - x1) / 48) * 2), step = (x2 - x1) / teeth;
    let path = `M${x1} ${y}`;
    for (let n = 0; n < teeth; n++) path += `L${x1 + step * (n + 0.5)} ${y + (n % 2 ? 6 : -6)}`;
    const text = fitted(row.text, x2 - x1 - 40);
    const size = wide(text) * 1.1 + 16, middle = (x1 + x2) / 2;
    const plate = svg("rect", { x: middle - size / 2, y: y - 10, width: size, height: 20, rx: 10,
      class: "plate" });
    const bolt = svg("path", { d: `${path}L${x2} ${y}`, class: "bolt" });
    return ["cut", bolt, plate, label(middle, y + 4, text, "", "middle")];
  },
  step(row, top, geometry) {
    const room = geometry.width - geometry.gutter - 12;
    const height = STEP_LINE * row.lines.length + 5;
    const band = svg("rect", { x: geometry.gutter, y: top + 2, width: room, height, rx: 4, class: "band" });
    const lines = row.lines.map((text, n) =>
      label(geometry.gutter + 10, top + 14 + n * STEP_LINE, fitted(text, room - 16, 10.4), "step"));
    return ["", band, ...lines];
  },
  gap(row, top, geometry) {
    const [left, right] = [geometry.gutter, geometry.width - 12];
    const size = wide(row.text) + 24, middle = (left + right) / 2, y = top + 15;
    const plate = svg("rect", { x: middle - size / 2, y: y - 9, width: size, height: 18, class: "plate" });
    return ["", line(left, y, right, y, "gap"), plate, label(middle, y + 4, row.text, "gaptext", "middle")];
  },
};

// The spans of each lane: no process (dead), a process (life), and over it a READY session.
const stretchesOf = (rows, lanes, outside) => {
  const found = new Map(lanes.map((lane) => [lane, { life: [], ready: [] }]));
  const first = () => ({ look: "", since: -1, sessions: new Set(), readySince: -1 });
  const now = new Map(lanes.map((lane) => [lane, first()]));
  const turn = (lane, look, place) => {
    const state = now.get(lane);
    const before = state.look || (look === "life" ? "dead" : "life");
    found.get(lane).life.push({ look: before, begin: state.since, end: place });
    Object.assign(state, { look, since: place });
  };
  rows.forEach((row, place) => {
    if (row.kind !== "marks" || !now.has(row.lane)) return;
    const state = now.get(row.lane);
    for (const chip of row.chips) {
      const before = state.sessions.size;
      if (chip.look === "started") turn(row.lane, "life", place);
      if (chip.look === "ended") { turn(row.lane, "dead", place); state.sessions.clear(); }
      if (chip.session !== undefined) {
        if (chip.look === "ready") state.sessions.add(chip.session); else state.sessions.delete(chip.session);
      }
      if (!before && state.sessions.size) state.readySince = place;
      if (before && !state.sessions.size) {
        found.get(row.lane).ready.push({ begin: state.readySince, end: place });
      }
    }
  });
  for (const [lane, state] of now) {
    const look = outside.includes(lane) ? "outside" : state.look || "life";
    found.get(lane).life.push({ look, begin: state.since, end: Infinity });
    if (state.sessions.size) found.get(lane).ready.push({ begin: state.readySince, end: Infinity });
  }
  return found;
};
