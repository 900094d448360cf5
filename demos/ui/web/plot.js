/* Plot: lines over clips or frames; the figures beside it are text, so they stay readable at any width. */
import { h } from "./lib.js";

/** Make an element of a drawing. */
export function node(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().filter(Boolean));
  return made;
}

const WIDE = 100;
const HIGH = 60;
const EDGE = 4;

/**
 * Return a figure.
 *
 * lines  [{ points: [[x, y], ..], colour, kind }], kind "reading" or the class of a helping line
 * x, y   [lowest, highest] of what is shown
 * shown  the words for the lowest and the highest y
 * said   all of it in words, for those who do not see it
 * press  called with the share 0..1 of the width that was pressed
 */
export function plot({ title, lines, x, y, shown, said, press }) {
  const across = (value) => ((value - x[0]) / (x[1] - x[0] || 1)) * WIDE;
  const down = (value) => HIGH - EDGE - ((value - y[0]) / (y[1] - y[0] || 1)) * (HIGH - 2 * EDGE);
  const drawn = lines.map(({ points, colour, kind = "reading" }) =>
    node("polyline", { class: `vg-line vg-line-${kind}`, fill: "none", ...(colour ? { style: `stroke:${colour}` } : {}),
      points: points.map(([at, value]) => `${across(at).toFixed(2)},${down(value).toFixed(2)}`).join(" ") }));
  const place = node("line", { class: "vg-line vg-line-place", x1: 0, x2: 0, y1: 0, y2: HIGH, visibility: "hidden" });
  const svg = node("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": said }, drawn, place);
  if (press) {
    svg.addEventListener("click", (event) => press((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth));
    svg.classList.add("vg-pressed");
  }
  const figure = h("figure", { class: "vg-plot" }, h("figcaption", {}, title),
    h("div", { class: "vg-plot-box" }, svg, h("span", {}, shown[1]), h("span", {}, shown[0])));
  /** Mark a place on the x axis. */
  figure.mark = (value) => {
    for (const end of ["x1", "x2"]) place.setAttribute(end, across(value));
    place.setAttribute("visibility", "visible");
  };
  return figure;
}
