/* Drift: how a long video changed from clip to clip, as the meter read it. */
import { button, h } from "./lib.js";

const SIGNALS = [["luma", "Brightness", "tone"], ["contrast", "Contrast", "tone"], ["chroma", "Colour", "colour"], ["sharpness", "Sharpness", "detail"]];
const COLOURS = { pass: "#12a594", warn: "#d98e04", fail: "#d64035", inconclusive: "#7b859b" };
const [WIDE, HIGH, LEFT, EDGE] = [300, 110, 8, 14];

/** Return the strip; `seek` is called with the frame of a seam that is pressed. */
export function driftStrip(drift, seek) {
  const { verdict } = drift;
  return h("section", { class: "vg-card vg-drift", "aria-label": "Drift" },
    h("div", { class: "vg-row" }, h("h2", {}, "Drift"), h("span", { class: `vg-badge vg-verdict-${verdict.overall}` }, verdict.overall),
      Object.entries(verdict.by_group).map(([name, found]) => h("span", { class: `vg-badge vg-verdict-${found}` }, `${name}: ${found}`))),
    h("div", { class: "vg-plots" }, SIGNALS.map(([name, title, group]) => plot(drift, name, title, verdict.by_group[group]))),
    seams(drift, seek),
    verdict.reasons.length ? h("details", {}, h("summary", {}, "Why"), h("ul", { class: "vg-notes" }, verdict.reasons.map((text) => h("li", {}, text)))) : null);
}

function plot(drift, name, title, found) {
  const values = drift.clips.map((clip) => clip.readings[name] ?? 0);
  const most = Math.max(0.05, ...values.map(Math.abs));
  const across = (k) => LEFT + (k * (WIDE - 2 * LEFT)) / Math.max(1, values.length - 1);
  const down = (value) => HIGH / 2 - (value / most) * (HIGH / 2 - EDGE);
  const colour = COLOURS[found] ?? COLOURS.inconclusive;
  const said = values.map((value, k) => `clip ${k + 1}: ${value.toFixed(3)}`).join(", ");
  const svg = node("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title} against the first clip: ${said}` },
    node("line", { x1: 0, x2: WIDE, y1: HIGH / 2, y2: HIGH / 2, class: "vg-axis" }),
    ...drift.clips.map((clip, k) => clip.kind === "cut" && k > 0 && node("line", { x1: across(k), x2: across(k), y1: 0, y2: HIGH, class: "vg-axis", "stroke-dasharray": "3 4" })),
    node("polyline", { points: values.map((value, k) => `${across(k)},${down(value)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2.5, "stroke-linejoin": "round" }),
    ...values.map((value, k) => node("circle", { cx: across(k), cy: down(value), r: 4, fill: colour })),
    node("text", { x: 2, y: 11 }, `+${most.toFixed(2)}`), node("text", { x: 2, y: HIGH - 3 }, `−${most.toFixed(2)}`));
  return h("figure", { style: "margin:0" }, h("figcaption", { class: "vg-quiet" }, `${title}: ${found ?? "not judged"}`), svg);
}

function seams(drift, seek) {
  if (!drift.seams.length) return null;
  return h("div", { class: "vg-row", style: "margin-top:.6rem" }, h("span", { class: "vg-quiet" }, "Play a seam:"),
    drift.seams.map((seam) => button(`clip ${seam.clip + 1}, ${seam.ratio.toFixed(1)}×`, () => seek(seam.frame), { title: "Change at the seam against the change around it" })));
}

function node(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter(Boolean));
  return made;
}
