/* Drift: how a long video changed from clip to clip, as the meter read it and as it is judged. */
import { button, h } from "./lib.js";
import { plot } from "./plot.js";

// The judged signals, in the order of the report; their limits come with the page.
const SIGNALS = [["gain", "Brightness"], ["spread", "Contrast"], ["chroma", "Colourfulness"], ["hue", "Hue"], ["blur", "Blur"], ["flow", "Motion"]];
const COLOURS = { pass: "var(--vg-good)", warn: "var(--vg-warn)", fail: "var(--vg-bad)", inconclusive: "var(--vg-soft)" };

/** Return the strip; `limits` are of a change per clip, `seek` is called with the frame of a seam that is pressed. */
export function driftStrip(drift, limits, seek) {
  const { verdict } = drift;
  return h("section", { class: "vg-card vg-drift", "aria-label": "Drift" },
    h("div", { class: "vg-row" }, h("h2", {}, "Drift"), h("span", { class: `vg-badge vg-verdict-${verdict.overall}` }, verdict.overall),
      Object.entries(verdict.by_group).map(([name, found]) => h("span", { class: `vg-badge vg-verdict-${found}` }, `${name}: ${found}`))),
    h("p", { class: "vg-quiet" }, "Each clip against the first one of its run. Between the dashed lines the change per clip is good, outside the dotted ones it is bad; judged is the change over all clips with its interval, not one clip."),
    h("div", { class: "vg-plots" }, SIGNALS.map(([name, title]) => signal(drift, limits[name], name, title))),
    seams(drift, seek),
    verdict.reasons.length ? h("details", {}, h("summary", {}, "Why"), h("ul", { class: "vg-notes" }, verdict.reasons.map((text) => h("li", {}, text)))) : null);
}

function signal({ clips, segments, verdict }, limit, name, title) {
  const values = clips.map((clip) => clip.readings[name] ?? 0);
  const longest = Math.max(...segments.map((run) => run.last - run.first));
  const most = Math.max(limit.fails * Math.max(1, longest), ...values.map(Math.abs)) * 1.05;
  const fan = (size, kind) => segments.flatMap(({ first, last }) => (limit.rises_only ? [1] : [1, -1]).map((sign) =>
    ({ kind, points: [[first, 0], [last, sign * size * (last - first)]] })));
  const found = verdict.by_group[limit.group];
  const unit = limit.unit.replace(" per clip", "");
  const runs = segments.map(({ first, last }) => ({ colour: COLOURS[found], points: values.slice(first, last + 1).map((value, k) => [first + k, value]) }));
  return plot({
    title: `${title}: ${found ?? "not judged"}`,
    lines: [{ kind: "axis", points: [[0, 0], [clips.length - 1, 0]] }, ...fan(limit.passes, "good"), ...fan(limit.fails, "bad"), ...runs],
    x: [0, clips.length - 1],
    y: [-most, most],
    shown: [`−${most.toPrecision(2)}`, `+${most.toPrecision(2)} ${unit}`],
    said: `${title} against the first clip, in ${unit}: ${values.map((value, k) => `clip ${k + 1}: ${value.toFixed(3)}`).join(", ")}. Good up to ${limit.passes}, bad beyond ${limit.fails} per clip.`,
  });
}

function seams(drift, seek) {
  if (!drift.seams.length) return null;
  return h("div", { class: "vg-row", style: "margin-top:.6rem" }, h("span", { class: "vg-quiet" }, "Play a seam:"),
    drift.seams.map((seam) => button(`clip ${seam.clip + 1}, ${seam.ratio.toFixed(1)}×`, () => seek(seam.frame), { title: "Change at the seam against the change around it" })));
}
