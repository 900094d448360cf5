/* Fidelity: how far clips are from the first one, frame by frame, drawn under the players. */
import { act, button, h, make } from "./lib.js";
import { plot } from "./plot.js";

const COLOURS = ["var(--vg-curve-1)", "var(--vg-curve-2)", "var(--vg-curve-3)"];
const SAME = 100; // dB: what equal frames are given
const known = new Map();

/** Say why a clip cannot be compared with the first one frame by frame; empty where it can. */
function unlike(first, other, number) {
  const why = first.size !== other.size
    ? `size (${[other, first].map((video) => video.size.replace("x", "×")).join(" against ")})`
    : first.num_frames !== other.num_frames ? `length (${other.num_frames} against ${first.num_frames} frames)` : "";
  return why && `Clip ${number} differs from clip 1 in ${why}, and PSNR and SSIM compare frame with frame: make it again in the same size and length to measure it.`;
}

/** Return the section; `seek` is called with a frame. Its mark(frame) shows where the players are. */
export function fidelityOf(videos, seek) {
  const [first, ...others] = videos;
  const reasons = others.map((video, k) => unlike(first, video, k + 2));
  const alike = others.filter((_, k) => !reasons[k]);
  const numbers = alike.map((video) => videos.indexOf(video) + 1);
  const body = h("div");
  let marks = [];
  const draw = (found) => {
    const plots = [
      curve("PSNR, dB", "psnr_of_frames", found, numbers, seek, 1),
      curve("SSIM", "ssim_of_frames", found, numbers, seek, 3),
    ].filter(Boolean);
    marks = plots;
    body.replaceChildren(h("div", {}, figures(found, numbers), h("div", { class: "vg-plots vg-wide" }, plots), legend(numbers)));
  };
  const key = JSON.stringify([first, ...alike].map((video) => [video.id, video.variants.video?.sha256]));
  const measure = async () => {
    const answer = await make("fidelity", { clips: [first.id, ...alike.map((video) => video.id)] });
    known.set(key, (await answer.json()).clips);
    draw(known.get(key));
  };
  if (known.has(key)) draw(known.get(key));
  else if (alike.length) {
    body.append(h("p", { class: "vg-quiet" }, "Each frame against the same frame of clip 1: the higher, the more alike."),
      button("Measure PSNR and SSIM", (event) => act(event.currentTarget, measure, "Measures…"), { id: "measure" }));
  }
  const section = h("section", { class: "vg-card", "aria-label": "PSNR and SSIM" }, h("h2", {}, "PSNR and SSIM"),
    reasons.filter(Boolean).map((why) => h("p", { class: "vg-quiet vg-unlike" }, why)), body);
  section.mark = (frame) => marks.forEach((figure) => figure.mark(frame));
  return section;
}

function curve(title, name, found, numbers, seek, digits) {
  const lists = found.map((clip) => clip[name]).filter(Boolean);
  if (!lists.length) return null;
  const values = lists.flat().filter((value) => value < SAME);
  const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [SAME - 1, SAME];
  const room = (high - low) * 0.08 || 0.01;
  const frames = lists[0].length;
  return plot({
    title,
    lines: lists.map((list, k) => ({ colour: COLOURS[k], points: list.map((value, at) => [at, Math.min(value, high + room)]) })),
    x: [0, frames - 1],
    y: [low - room, high + room],
    shown: [low.toFixed(digits), high.toFixed(digits)],
    said: `${title} of ${frames} frames: ${found.map((clip, k) => `clip ${numbers[k]} from ${Math.min(...clip[name])} to ${Math.max(...clip[name])}`).join(", ")}`,
    press: (share) => seek(Math.round(share * (frames - 1))),
  });
}

function figures(found, numbers) {
  const psnr = (value) => (value >= SAME ? "equal" : `${value.toFixed(2)} dB`);
  const lowest = (list) => (list ? Math.min(...list).toFixed(4) : "–");
  return h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": "PSNR and SSIM in figures" }, h("table", { class: "vg-table vg-measured" },
    h("thead", {}, h("tr", {}, h("td", {}), ["PSNR, all frames", "lowest", "SSIM, mean", "lowest", "worst frame"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, found.map((clip, k) => h("tr", {}, h("th", { scope: "row" }, `Clip ${numbers[k]} to clip 1`),
      [psnr(clip.psnr), psnr(Math.min(...clip.psnr_of_frames)), clip.ssim.toFixed(4), lowest(clip.ssim_of_frames), clip.psnr >= SAME ? "–" : String(clip.worst_frame + 1)]
        .map((cell) => h("td", {}, cell)))))));
}

function legend(numbers) {
  if (numbers.length < 2) return null;
  return h("ul", { class: "vg-legend" }, numbers.map((number, k) => h("li", {}, h("i", { style: `background:${COLOURS[k]}` }), `Clip ${number}`)));
}
