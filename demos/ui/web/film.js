/* Film: a card's clips, which play under the pointer, and beside them the frame that they end on. */
import { content, h } from "./lib.js";

/** <vidgen-film>: give it the clips of a job by show(). */
export class Film extends HTMLElement {
  /** clips: numbers in the order of making; name: what it is called for those who do not see it. */
  show(video, clips, name) {
    const form = JSON.stringify([video, clips]);
    if (form === this.form) return;
    this.form = form;
    const sources = clips.map((clip) => content(video, `clip-${clip}`));
    this.replaceChildren(
      h("figure", {}, playing(sources, name), h("figcaption", {}, clips.length > 1 ? `${clips.length} clips` : "The clip")),
      h("figure", {}, lastFrame(sources.at(-1), name), h("figcaption", {}, "Its last frame")));
  }
}

/** Play the clips one after the other while the pointer or the focus is on them. */
function playing(sources, name) {
  let at = 0;
  const media = h("video", { class: "vg-film", src: sources[0], muted: true, loop: sources.length === 1, playsinline: true, preload: "metadata", tabindex: "0", "aria-label": name });
  media.addEventListener("ended", () => {
    at = (at + 1) % sources.length;
    media.src = sources[at];
    media.play().catch(() => {});
  });
  for (const begin of ["pointerenter", "focus"]) media.addEventListener(begin, () => media.play().catch(() => {}));
  for (const end of ["pointerleave", "blur"]) media.addEventListener(end, () => media.pause());
  return media;
}

/** Draw the last frame of a clip; the clip is let go of then. */
function lastFrame(source, name) {
  const canvas = h("canvas", { class: "vg-film", role: "img", "aria-label": `Last frame of ${name}` });
  const media = h("video", { src: source, muted: true, playsinline: true, preload: "auto" });
  media.addEventListener("loadedmetadata", () => (media.currentTime = Math.max(0, media.duration - 1e-3)), { once: true });
  media.addEventListener("seeked", () => {
    [canvas.width, canvas.height] = [media.videoWidth, media.videoHeight];
    canvas.getContext("2d").drawImage(media, 0, 0);
    canvas.dataset.drawn = "1";
    media.removeAttribute("src");
    media.load();
  }, { once: true });
  return canvas;
}

customElements.define("vidgen-film", Film);
