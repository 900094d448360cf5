/* Player: a finished clip, played by the browser from the server's own Range route. */
import { act, content, h, button } from "./lib.js";
import { useFrame } from "./frame.js";

/** <vidgen-player>: give it a video by show(). */
export class Player extends HTMLElement {
  show(video) {
    if (this.shown === video.id) return;
    this.shown = video.id;
    const [up, down = "1"] = video.fps.split("/");
    this.fps = Number(up) / Number(down);
    this.frames = video.num_frames;
    this.media = h("video", {
      src: content(video.id),
      poster: video.variants?.thumbnail ? content(video.id, "thumbnail") : null,
      controls: true,
      loop: true,
      muted: true,
      playsinline: true,
      preload: "auto",
      "aria-label": `Video: ${video.prompt ?? video.id}`,
    });
    if (video.width < 320) this.media.classList.add("vg-small");
    this.media.style.aspectRatio = `${video.width} / ${video.height}`;
    const place = h("output", { class: "vg-frame" }, "");
    const tick = () => (place.textContent = `frame ${this.frame() + 1} of ${this.frames}`);
    for (const name of ["timeupdate", "seeked", "loadeddata"]) this.media.addEventListener(name, tick);
    const loop = h("input", { type: "checkbox", checked: true, change: () => (this.media.loop = loop.checked) });
    this.replaceChildren(
      this.media,
      h(
        "div",
        { class: "vg-row vg-tight" },
        button("◀ frame", () => this.step(-1), { "aria-label": "One frame back" }),
        button("frame ▶", () => this.step(1), { "aria-label": "One frame on" }),
        button("Use this frame", (event) => act(event.currentTarget, () => { this.media.pause(); return useFrame(video, this.frame()); }, "Takes it…"), { title: "Begin a new clip with the frame that is shown" }),
        h("label", { class: "vg-check" }, loop, "Loop"),
        place,
      ),
    );
  }

  frame() {
    return Math.min(this.frames - 1, Math.floor(this.media.currentTime * this.fps + 1e-3));
  }

  step(by) {
    this.media.pause();
    const next = (this.frame() + by + this.frames) % this.frames;
    this.media.currentTime = (next + 0.5) / this.fps;
  }
}

customElements.define("vidgen-player", Player);
