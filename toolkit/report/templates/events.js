// The records of a history as lines, filtered by kind and text; only visible lines are in the document.
const DETAIL_KINDS = new Set(["frame", "send", "deliver", "throttle", "link"]);

class EventList {
  constructor(place, data, anchor, title) {
    this.data = data;
    this.anchor = anchor;
    this.wrong = new Set(data.wrong);
    this.gaps = new Set(data.gaps);
    this.hidden = new Set(data.kinds.filter((kind) => DETAIL_KINDS.has(kind)));
    this.chosen = -1;
    this.body = html("div", { class: "lines" });
    this.scroller = html("div", { class: "event-scroll", tabindex: 0, role: "region",
      "aria-label": `Events of ${title}` }, this.body);
    this.detail = html("pre", { class: "fields", "aria-live": "polite" },
      "Click a line to see the whole record here.");
    place.replaceChildren(this.toolbar(), this.scroller, this.detail);
    this.scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("[data-place]");
      if (line) this.choose(Number(line.dataset.place));
    });
    new ResizeObserver(later(() => this.draw())).observe(this.scroller);
    this.arrange();
  }

  toolbar() {
    const counts = new Map();
    for (const row of this.data.rows) counts.set(row[3], (counts.get(row[3]) ?? 0) + 1);
    const search = html("input", { type: "search", placeholder: "Filter events: node or text",
      "aria-label": "Filter events" });
    search.addEventListener("input",
      later(() => { this.text = search.value.trim().toLowerCase(); this.arrange(); }));
    this.kinds = new Map(this.data.kinds.map((kind) => {
      const act = (shown) => {
        if (shown) this.hidden.delete(kind); else this.hidden.add(kind);
        this.arrange();
      };
      const made = toggle(`${kind} ${counts.get(kind) ?? 0}`, !this.hidden.has(kind), act);
      made.dataset.kind = kind;
      return [kind, made];
    }));
    this.count = html("span", { class: "shown", role: "status" });
    return html("div", { class: "tools", role: "toolbar", "aria-label": "Kinds of records" }, search,
      ...this.kinds.values(), this.count);
  }

  arrange() {
    this.view = this.data.rows.filter(([, , node, kind, text]) => !this.hidden.has(kind)
      && (!this.text || `${node} ${text}`.toLowerCase().includes(this.text)));
    const [shown, all] = [this.view, this.data.rows].map((rows) => rows.length.toLocaleString("en"));
    this.count.textContent = `${shown} of ${all} records`;
    this.draw();
  }

  draw() {
    this.height = parseFloat(getComputedStyle(this.body).getPropertyValue("--line-height")) || 28;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - 20);
    const last = Math.min(this.view.length, first + Math.ceil(this.scroller.clientHeight / this.height) + 40);
    this.body.style.height = `${this.view.length * this.height}px`;
    this.body.replaceChildren(...this.view.slice(first, last).map((row, n) => this.line(row, first + n)));
  }

  line([place, time, node, kind, text], number) {
    const looks = ["record", this.wrong.has(place) && "wrong", place === this.chosen && "chosen",
      this.gaps.has(place) && "gap-before"];
    const made = html("div", { class: looks.filter(Boolean).join(" "), id: `${this.anchor}-${place}`,
      "data-place": place, "data-kind": kind },
      html("span", { class: "num" }, `${place}`), html("span", { class: "num" }, time.toFixed(6)),
      html("span", {}, node),
      html("span", { class: `kind ${kind}` }, kind), html("span", { class: "what" }, text));
    made.style.top = `${number * this.height}px`;
    return made;
  }

  choose(place) {
    this.chosen = place;
    const row = this.data.rows[bisect(this.data.rows.length, (n) => this.data.rows[n][0] >= place)];
    this.detail.textContent = `record ${place}, ${row[1].toFixed(9)} s, ${row[2]}, ${row[3]}\n${row[4]}`;
    this.draw();
  }

  // Shows a record, even if the filters hide it.
  reveal(place) {
    const at = bisect(this.data.rows.length, (n) => this.data.rows[n][0] >= place);
    if (this.data.rows[at]?.[0] !== place) return;
    const kind = this.data.rows[at][3];
    if (this.hidden.has(kind)) this.kinds.get(kind).click();
    this.scroller.scrollTop = Math.max(0, this.view.findIndex((row) => row[0] === place) - 4) * this.height;
    this.choose(place);
    this.scroller.scrollIntoView({ block: "center" });
  }
}
