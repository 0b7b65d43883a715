// The bytes of the selected frame beside its fields: selecting one highlights the other.
const LINE_BYTES = 16;

// The frames of a page, one line of JSON each after a line with their common data; a line is parsed on demand.
class FrameStore {
  constructor(script) { this.script = script; }

  read() {
    if (this.lines || !this.script) return;
    const [head, ...lines] = this.script.textContent.split("\n");
    this.head = JSON.parse(head);
    this.lines = new Map(lines.map((text) => {
      const end = text.indexOf(" ");
      return [Number(text.slice(0, end)), text.slice(end + 1)];
    }));
  }

  frame(number) {
    this.read();
    const text = this.lines?.get(number);
    if (text === undefined) return null;
    const [shape, title, problem, blocks, values] = JSON.parse(text);
    const [titles, parts] = this.head.shapes[shape];
    return { title, problem,
      blocks: blocks.map(([size, data], n) => ({ title: titles[n], size, data: bytesOf(data) })),
      parts: parts.map(([name, block, edges, hidden], n) => ({ name, block, edges, hidden, value: values[n] })) };
  }

  // The reason why a frame has no bytes.
  reason(number) {
    if (!this.script || number === undefined) {
      return "No bytes: a history has the fields of its frames, not their packets. The page of a capture has both"
        + " (msgrlab chart CAPTURE -o page.html).";
    }
    this.read();
    return this.head.left ? `No bytes of this frame: ${this.head.left}.`
      : "No bytes of this frame: their position in the capture is unknown.";
  }
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

class FramePanel {
  constructor(store, leave) {
    this.store = store;
    this.leave = leave;
    this.element = html("aside", { class: "frame-panel", "aria-label": "Bytes of a frame", hidden: true });
    this.element.addEventListener("click", (event) => {
      const piece = event.target.closest("[data-part]");
      if (piece) this.choose(Number(piece.dataset.part), piece.matches("button"));
    });
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  get isOpen() { return !this.element.hidden; }

  // Shows a frame, or the text of another row.
  show(row, text) {
    const wasOpen = this.isOpen;
    const frame = row.frame === undefined ? null : this.store.frame(row.frame);
    const close = button("×", { class: "close", "aria-label": "Close the bytes" }, () => this.close());
    const content = frame ? this.withBytes(frame) : this.withoutBytes(row, text);
    this.element.replaceChildren(close, ...content);
    this.element.hidden = false;
    this.element.scrollTop = 0;
    if (!wasOpen) this.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    this.leave();
  }

  // Highlights a part in both places: its button, and its bytes.
  choose(part, isButton) {
    for (const each of this.element.querySelectorAll("[data-part]")) {
      const chosen = each.dataset.part === `${part}` || (` ${each.dataset.inside ?? ""} `).includes(` ${part} `);
      each.classList.toggle("chosen", chosen);
      if (each.matches("button")) each.setAttribute("aria-pressed", each.dataset.part === `${part}`);
    }
    const other = this.element.querySelector(isButton ? "span.chosen" : "button.chosen");
    other?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    if (event.key === "Escape") { event.preventDefault(); this.close(); return; }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches("button[data-part]")) return;
    event.preventDefault();
    const buttons = [...this.element.querySelectorAll("button[data-part]")];
    const next = buttons[buttons.indexOf(event.target) + step];
    if (!next) return;
    next.focus();
    this.choose(Number(next.dataset.part), true);
  }

  title(text) { return html("p", { class: "frame-title", "aria-live": "polite" }, text); }

  withoutBytes(row, text) {
    const [first, ...lines] = text.split("\n");
    if (row.kind !== "frame") return [this.title(first), html("p", { class: "lines-of-row" }, lines.join("\n"))];
    const fields = lines.slice(2).map((line) => {
      const end = line.indexOf(": ");
      return html("p", { class: "part" }, html("b", {}, line.slice(0, end)), ` ${line.slice(end + 2)}`);
    });
    return [this.title(first), ...lines.slice(0, 2).map((line) => html("p", { class: "where" }, line)), ...fields,
      html("p", { class: "no-bytes" }, this.store.reason(row.frame))];
  }

  withBytes(frame) {
    const drawn = [this.title(frame.title)];
    if (frame.problem) drawn.push(html("p", { class: "problem" }, `✕ ${frame.problem}`));
    frame.blocks.forEach((block, place) => {
      const heading = html("h4", {}, `${block.title}, ${block.size.toLocaleString("en")} bytes`);
      const more = block.size - block.data.length;
      const left = more > 0 ? [html("p", { class: "where" }, `… ${more.toLocaleString("en")} more bytes`)] : [];
      const dump = html("div", { class: "dump" }, ...this.lines(frame, block, place), ...left);
      const parts = frame.parts.map((part, n) => [part, n]).filter(([part]) => part.block === place);
      const fields = html("div", { class: "parts" }, ...parts.map(([part, n]) => this.part(part, n)));
      drawn.push(heading, html("div", { class: "beside" }, dump, fields));
    });
    const placeless = frame.parts.filter((part) => part.block < 0);
    if (placeless.length) drawn.push(html("h4", {}, "Fields without a place"));
    drawn.push(...placeless.map((part) => html("p", { class: "part" }, html("b", {}, part.name), ` ${part.value}`)));
    return drawn;
  }

  part(part, number) {
    const size = part.edges.reduce((sum, edge, n) => sum + (n % 2 ? edge : -edge), 0);
    const look = part.value === "" ? "part region" : "part";
    const name = button(part.name, { "data-part": number, "aria-pressed": "false" }, () => {});
    const place = part.edges.length ? ` ${part.edges[0]}, ${size.toLocaleString("en")} bytes` : "";
    return html("p", { class: look }, name, ` ${part.value}`, html("span", { class: "where" }, place));
  }

  // Lines of bytes; adjacent bytes that belong to the same parts are one element.
  lines(frame, block, place) {
    const owners = Array.from(block.data, () => []);
    const hidden = new Set();
    frame.parts.forEach((part, number) => {
      if (part.block !== place) return;
      for (let n = 0; n < part.edges.length; n += 2) {
        for (let at = part.edges[n]; at < Math.min(part.edges[n + 1], owners.length); at++) {
          owners[at].push(number);
          if (part.hidden) hidden.add(at);
        }
      }
    });
    const lines = [];
    for (let begin = 0; begin < block.data.length; begin += LINE_BYTES) {
      const end = Math.min(begin + LINE_BYTES, block.data.length);
      const line = html("div", {}, html("span", { class: "offset" }, begin.toString(16).padStart(4, "0")));
      for (let at = begin; at < end;) {
        const inside = owners[at].join(" ");
        const words = [];
        for (; at < end && owners[at].join(" ") === inside; at++) {
          words.push(hidden.has(at) ? "··" : block.data[at].toString(16).padStart(2, "0"));
        }
        const about = inside ? { "data-part": owners[at - 1].at(-1), "data-inside": inside } : {};
        line.append(" ", html("span", about, words.join(" ")));
      }
      lines.push(line);
    }
    return lines;
  }
}
