"use strict";
// Elements with attributes and children. Text from a history is always a text node, never markup.
const SVG = "http://www.w3.org/2000/svg";
const filled = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};
const html = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

const button = (text, attributes, act) => {
  const made = html("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", () => act(made));
  return made;
};
const toggle = (text, pressed, act) =>
  button(text, { "aria-pressed": `${pressed}` }, (made) => {
    const now = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", now);
    act(now);
  });
const later = (act, wait_ms = 150) => {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(act, wait_ms); };
};
// The first index of a sorted list at which `is_behind` is true.
const bisect = (count, is_behind) => {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is_behind(middle)) high = middle; else low = middle + 1;
  }
  return low;
};
