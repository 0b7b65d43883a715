// A sequence chart that draws the rows in sight. Pan by scrolling or dragging, zoom with Ctrl and the wheel or
// + and -, step through rows with the arrow keys, open a fold or the bytes of a frame with Enter or a click.
const ZOOMS = [0.25, 0.35, 0.5, 0.7, 0.85, 1, 1.25, 1.6, 2, 3];
const MOST_PRINTED = 9000; // pixels of height

class SequenceChart {
  constructor(place, data, title, frames) {
    this.data = data;
    this.selection = new Selection(data.rows);
    this.zoom = 1;
    this.selected = -1;
    this.lanes = data.lanes.map((_, lane) => lane);
    this.stretches = stretchesOf(data.rows, this.lanes, data.outside);
    this.head = svg("svg", { class: "seq head-row", "aria-hidden": "true" });
    this.sheet = svg("svg", { class: "seq", role: "img", "aria-label": `Sequence chart of ${title}` });
    this.body = html("div", { class: "chart-body" }, this.sheet);
    this.scroller = html("div", { class: "chart-scroll", tabindex: 0, role: "region",
      "aria-label": `Sequence chart of ${title}` },
      this.head, this.body);
    this.detail = html("pre", { class: "fields", "aria-live": "polite" },
      "Click a row, or step with ↑ and ↓: its fields are shown here.");
    this.panel = new FramePanel(frames, () => { this.detail.hidden = false; this.scroller.focus(); });
    const both = html("div", { class: "chart-and-panel" }, this.scroller, this.panel.element);
    place.replaceChildren(this.toolbar(), both, this.detail);
    this.listen();
    this.arrange();
  }

  // ---- controls

  toolbar() {
    const search = html("input", { type: "search", placeholder: "Filter rows: text of frames and events",
      "aria-label": "Filter rows" });
    search.addEventListener("input",
      later(() => { this.selection.text = search.value.trim().toLowerCase(); this.arrange(); }));
    this.search = search;
    this.count = html("span", { class: "shown", role: "status" });
    this.zoomText = html("output", { class: "zoom", "aria-label": "Zoom" });
    const folding = (name, text) => toggle(text, this.selection[name], (on) => {
      this.selection[name] = on;
      this.selection.unfolded.clear();
      this.arrange();
    });
    const lanes = this.data.lanes.map((name, lane) => [lane, name, ""]);
    return html("div", { class: "tools", role: "toolbar", "aria-label": "Chart" }, search,
      this.choices("Nodes", lanes, this.selection.hiddenLanes),
      this.choices("Types", this.types(), this.selection.hiddenTypes),
      folding("foldsHandshakes", "Fold handshakes"), folding("foldsRuns", "Fold long runs"),
      html("span", { class: "zooms" }, button("−", { "aria-label": "Zoom out" }, () => this.zoomBy(-1)),
        this.zoomText, button("+", { "aria-label": "Zoom in" }, () => this.zoomBy(1)),
        button("100 %", {}, () => this.zoomTo(1))), this.count);
  }

  types() {
    const counts = new Map();
    for (const type of this.data.rows.flatMap(typesOf)) counts.set(type, (counts.get(type) ?? 0) + 1);
    return [...counts].map(([type, count]) => [type, type, count]);
  }

  // A menu of check boxes; unchecked names are added to `hidden`.
  choices(title, entries, hidden) {
    const boxes = entries.map(([value]) => {
      const box = html("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(value); else hidden.add(value);
        this.arrange();
      });
      return box;
    });
    const labels = entries.map(([, name, count], n) =>
      html("label", {}, boxes[n], ` ${name} `, html("small", {}, `${count}`)));
    const all = (checked) => () => {
      entries.forEach(([value], n) => {
        boxes[n].checked = checked;
        if (checked) hidden.delete(value); else hidden.add(value);
      });
      this.arrange();
    };
    const both = html("div", { class: "both" }, button("All", {}, all(true)), button("None", {}, all(false)));
    const sheet = html("div", { class: "sheet" }, both, ...labels);
    const menu = html("details", { class: "menu" }, html("summary", {}, title), sheet);
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") menu.open = false; });
    menu.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
    });
    return menu;
  }

  listen() {
    let due = 0;
    this.scroller.addEventListener("scroll",
      () => { due ||= requestAnimationFrame(() => { due = 0; this.draw(); }); });
    this.scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1 : -1, event.clientY);
    }, { passive: false });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.sheet.addEventListener("click", (event) => {
      const row = event.target.closest("[data-row]");
      if (row && !this.dragged) this.choose(Number(row.dataset.row), true);
    });
    this.listenToDrags();
    const fit = later(() => { if (this.scroller.clientWidth !== this.room) this.arrange(); });
    new ResizeObserver(fit).observe(this.scroller);
  }

  listenToDrags() {
    let from = null;
    this.body.addEventListener("pointerdown", (event) => {
      this.dragged = false;
      if (event.pointerType !== "mouse" || event.button) return;
      from = { x: event.clientX, y: event.clientY, left: this.scroller.scrollLeft,
        top: this.scroller.scrollTop };
    });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      this.dragged ||= Math.hypot(event.clientX - from.x, event.clientY - from.y) > 4;
      if (!this.dragged) return;
      this.scroller.scrollTo(from.left - event.clientX + from.x, from.top - event.clientY + from.y);
    });
    addEventListener("pointerup", () => { from = null; });
  }

  key(event) {
    const acts = {
      ArrowDown: () => this.choose(Math.min(this.selected + 1, this.view.length - 1), false),
      ArrowUp: () => this.choose(Math.max(this.selected - 1, 0), false),
      Enter: () => this.choose(this.selected, true),
      "+": () => this.zoomBy(1), "=": () => this.zoomBy(1), "-": () => this.zoomBy(-1), 0: () => this.zoomTo(1),
      "/": () => this.search.focus(),
      Escape: () => this.panel.close(),
    };
    if (event.ctrlKey || event.altKey || event.metaKey || !Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  }

  zoomBy(steps, clientY) {
    const place = bisect(ZOOMS.length, (n) => ZOOMS[n] >= this.zoom - 0.001) + steps;
    this.zoomTo(ZOOMS[Math.max(0, Math.min(place, ZOOMS.length - 1))], clientY);
  }

  // Zooms around the pointer, or around the middle of the view.
  zoomTo(zoom, clientY) {
    const box = this.scroller.getBoundingClientRect();
    const at = clientY === undefined ? box.height / 2 : clientY - box.top;
    const y = (this.scroller.scrollTop + at) / this.zoom;
    this.zoom = zoom;
    this.size();
    this.scroller.scrollTop = y * zoom - at;
    this.draw(true);
  }

  // Selects a row of the view; `opens` also opens a fold or the bytes of a frame.
  choose(number, opens) {
    const item = this.view[number];
    if (!item) return;
    if (item.row.kind === "fold" && opens) {
      this.selection.unfolded.add(item.place);
      this.arrange();
      return;
    }
    this.selected = number;
    const { row } = item;
    const tips = row.chips ? row.chips.map((chip) => chip.tip) : row.lines ?? [row.tip ?? row.text];
    this.detail.textContent = tips.join("\n\n");
    if ((opens && row.kind === "frame") || this.panel.isOpen) this.panel.show(row, this.detail.textContent);
    this.detail.hidden = this.panel.isOpen;
    const top = this.tops[number] * this.zoom, bottom = top + this.geometry.height(row) * this.zoom;
    const room = this.scroller.clientHeight - HEAD_HEIGHT * this.zoom;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + room) this.scroller.scrollTop = bottom - room;
    this.draw(true);
  }

  // ---- layout and drawing

  // Computes the visible rows and their positions, after a change of filter, folds or width.
  arrange() {
    this.room = this.scroller.clientWidth;
    this.geometry = new Geometry(this.lanes.filter((lane) => !this.selection.hiddenLanes.has(lane)), this.room);
    this.view = this.selection.view();
    this.tops = [];
    let top = 8;
    for (const { row } of this.view) { this.tops.push(top); top += this.geometry.height(row); }
    this.height = top + 12;
    this.selected = Math.min(this.selected, this.view.length - 1);
    const folded = this.view.filter(({ row }) => row.kind === "fold").length;
    const [shown, all] = [this.view, this.data.rows].map((rows) => rows.length.toLocaleString("en"));
    this.count.textContent = `${shown} of ${all} rows`
      + (folded ? `, ${folded} folded` : "");
    this.size();
    this.draw(true);
  }

  size() {
    const width = this.geometry.width;
    this.body.style.width = `${width * this.zoom}px`;
    this.body.style.height = `${this.height * this.zoom}px`;
    this.zoomText.textContent = `${Math.round(this.zoom * 100)} %`;
    for (const [name, value] of Object.entries({
      width: width * this.zoom, height: HEAD_HEIGHT * this.zoom, viewBox: `0 0 ${width} ${HEAD_HEIGHT}`,
    })) this.head.setAttribute(name, value);
    this.head.replaceChildren(...[...this.geometry.shown].map(([lane, x]) => this.heading(lane, x)));
  }

  heading(lane, x) {
    const room = this.geometry.pitch - 14;
    const name = fitted(this.data.lanes[lane], room - 24, 13);
    const size = Math.min(room, Math.max(64, wide(name, 13) * 1.05 + 26));
    return svg("g", {}, svg("title", {}, this.data.lanes[lane]),
      svg("rect", { x: x - size / 2, y: 5, width: size, height: 29, rx: 7, class: "head" }),
      label(x, 24, name, "name", "middle"));
  }

  draw(always = false) {
    const sight = this.scroller.clientHeight / this.zoom, top = this.scroller.scrollTop / this.zoom;
    if (!always && top >= this.drawn.top && top + sight <= this.drawn.bottom) return;
    this.drawBetween(Math.max(0, top - sight), Math.min(this.height, top + 2 * sight));
  }

  drawBetween(top, bottom) {
    this.drawn = { top: top || -1, bottom: bottom >= this.height ? Infinity : bottom };
    const { width } = this.geometry;
    const first = bisect(this.view.length, (n) => this.tops[n] + 80 >= top);
    const last = bisect(this.view.length, (n) => this.tops[n] > bottom);
    this.sheet.setAttribute("viewBox", `0 ${top} ${width} ${bottom - top}`);
    this.sheet.setAttribute("width", width * this.zoom);
    this.sheet.setAttribute("height", (bottom - top) * this.zoom);
    this.sheet.style.top = `${top * this.zoom}px`;
    const rows = [];
    let time = "";
    for (let number = first; number < last; number++) {
      rows.push(this.row(number));
      const { row } = this.view[number];
      const now = row.time.toFixed(this.data.digits);
      if (now !== time && row.kind !== "gap") {
        const y = this.tops[number] + this.geometry.height(row) / 2 + 4;
        rows.push(label(this.geometry.gutter - 10, y, now, "time", "end"));
      }
      time = now;
    }
    this.sheet.replaceChildren(...this.lifelines(top, bottom), ...rows);
  }

  row(number) {
    const { row } = this.view[number];
    const [look, ...parts] = DRAW[row.kind](row, this.tops[number], this.geometry);
    const height = this.geometry.height(row);
    const back = svg("rect", { x: 0, y: this.tops[number], width: this.geometry.width, height, class: "back" });
    const tip = row.tip ?? row.chips?.map((chip) => chip.tip).join("\n\n");
    return svg("g", { class: `row ${look}${number === this.selected ? " selected" : ""}`, "data-row": number },
      ...(tip ? [svg("title", {}, tip)] : []), back, ...parts);
  }

  lifelines(top, bottom) {
    const drawn = [];
    for (const [lane, x] of this.geometry.shown) {
      const { life, ready } = this.stretches.get(lane);
      const clipped = ({ begin, end }) => [Math.max(top, this.y(begin)), Math.min(bottom, this.y(end))];
      for (const each of life) {
        const [y1, y2] = clipped(each);
        if (y1 < y2) drawn.push(line(x, y1, x, y2, each.look));
      }
      for (const each of ready) {
        const [y1, y2] = clipped(each);
        const box = { x: x - 3, y: y1, width: 6, height: y2 - y1, rx: 3, class: "ready" };
        if (y1 < y2) drawn.push(svg("rect", box));
      }
    }
    return drawn;
  }

  // Position of a row of the data, or of the first shown row after it.
  y(place) {
    if (place < 0) return 0;
    const number = bisect(this.view.length, (n) => this.view[n].place >= place);
    return number < this.view.length ? this.tops[number] + 13 : this.height;
  }

  print() { this.drawBetween(0, Math.min(this.height, MOST_PRINTED)); }
}
