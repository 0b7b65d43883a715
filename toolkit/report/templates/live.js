// The browser's side of the live view: inserts the HTML that the kernel renders, and sends back pressed buttons.
const BEAT_MS = 10000;

// Replaces the content of a part; keeps the focus and the open elements.
const put = (part, text) => {
  const key = part.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = [...part.querySelectorAll("details[open]")].map((each) => each.dataset.key);
  const typed = [...part.querySelectorAll("input, select")].map((each) => [each.dataset.key, each.value]);
  part.innerHTML = text;
  const keyed = (name) => [...part.querySelectorAll("[data-key]")].find((each) => each.dataset.key === name);
  for (const name of open) keyed(name)?.setAttribute("open", "");
  for (const [name, value] of typed) {
    const field = keyed(name);
    if (field && (field.tagName === "INPUT" || [...field.options].some((each) => each.value === value))) field.value = value;
  }
  if (key !== undefined) keyed(key)?.focus({ preventScroll: true });
};

// The fault of a button, with the selected values inserted.
const wordsOf = (root, fault) =>
  fault.replace(/\{(\w+)\}/g, (all, name) => root.querySelector(`[data-choice="${name}"]`)?.value ?? all);

const copy = async (button) => {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    button.textContent = "not allowed";
  }
};

const pressed = (root, button, send) => {
  const data = button.dataset;
  if (data.copy !== undefined) copy(button);
  else if (data.fault !== undefined) send({ fault: wordsOf(root, data.fault) });
  else if (data.choose !== undefined) send({ choose: data.choose });
  else if (data.judge !== undefined) send({ judge: true });
  else if (data.do !== undefined) {
    const words = root.querySelector("[data-words]").value.trim();
    if (words) send({ fault: words });
  }
};

const preview = (root, target) => {
  const shown = root.querySelector("[data-preview]");
  if (!shown) return;
  const fault = target.closest("[data-fault]")?.dataset.fault;
  const typed = target.closest("[data-words], [data-do]") && root.querySelector("[data-words]").value.trim();
  if (fault || typed) shown.textContent = `cluster.fault(${JSON.stringify(wordsOf(root, fault ?? typed))})`;
};

// Makes the kernel refresh the view only while it is visible.
const watch = (el, send) => {
  const view = crypto.getRandomValues(new Uint32Array(2)).join("-");
  let inSight = false, timer = 0;
  const beat = () => {
    clearInterval(timer);
    const seen = inSight && document.visibilityState === "visible";
    send({ view, seen });
    if (seen) timer = setInterval(() => send({ view, seen }), BEAT_MS);
  };
  const observer = new IntersectionObserver((entries) => { inSight = entries.at(-1).isIntersecting; beat(); });
  observer.observe(el);
  document.addEventListener("visibilitychange", beat);
  return () => {
    observer.disconnect();
    document.removeEventListener("visibilitychange", beat);
    clearInterval(timer);
    send({ view, seen: false });
  };
};

const render = ({ model, el }) => {
  const root = document.createElement("div");
  root.innerHTML = model.get("frame");
  el.append(root);
  const shown = {};
  const send = (content) => model.send(content);
  const update = () => {
    for (const [name, text] of Object.entries(model.get("parts"))) {
      const part = root.querySelector(`[data-part="${name}"]`);
      if (part && shown[name] !== text) put(part, shown[name] = text);
    }
  };
  model.on("change:parts", update);
  update();
  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) pressed(root, button, send);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("[data-words]")) root.querySelector("[data-do]").click();
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") step(event);
  });
  for (const name of ["focusin", "mouseover", "input", "change"]) root.addEventListener(name, (event) => preview(root, event.target));
  const stop = watch(el, send);
  return () => { model.off("change:parts", update); stop(); };
};

// The arrow keys move between the buttons of a row.
const step = (event) => {
  const row = event.target.matches("button") && event.target.closest(".row, ul, section");
  if (!row) return;
  const buttons = [...row.querySelectorAll("button:enabled")];
  const next = buttons[buttons.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : -1)];
  if (next) { next.focus(); event.preventDefault(); }
};

export default { render };
