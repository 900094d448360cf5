/* Live: the job that runs now or ran last, from its first step to the player. */
import { BUSY, ENDED, act, api, button, content, h, poll, post, seconds, stateOf, sure, titleOf } from "./lib.js";
import { remember, remembered } from "./store.js";
import { actionsOf, chipsOf } from "./actions.js";
import { growing } from "./growing.js";
import "./player.js";

export class Live extends HTMLElement {
  connectedCallback() {
    this.job = null;
    this.drawn = "";
    this.lost = "";
    this.wake = poll(this, () => this.look());
  }

  follow(id) {
    if (this.job !== id) this.drawn = ""; // else it is shown already, and somebody may be pressing there
    this.job = id;
    remember("last", id);
    this.wake();
  }

  async look() {
    if (!this.job) this.job = await this.find();
    if (!this.job) return this.idle();
    const { job } = this;
    let video;
    try {
      video = await api(`videos/${job}`);
    } catch (error) {
      if (job !== this.job) return 0; // another one is followed meanwhile
      if (error.status === 404) {
        remember("last", null);
        this.job = null;
        return 300;
      }
      this.sayLost(error.status > 0 && error.status < 500 ? error.message
        : "The server does not answer. The job is safe; this page goes on when the server is back.");
      throw error;
    }
    this.sayLost("");
    if (job !== this.job) return 0;
    this.draw(video);
    if (ENDED.includes(video.state)) return 3000;
    return BUSY.includes(video.state) ? 700 : 1500;
  }

  /** Whatever runs comes first, then what waits, then the last job of this browser. */
  async find() {
    const { data } = await api("videos?limit=1&order=queue");
    return data[0]?.id ?? remembered("last");
  }

  idle() {
    if (this.drawn !== "idle") {
      this.shown = null;
      this.drawn = "idle";
      this.replaceChildren(
        h(
          "section",
          { class: "vg-card vg-empty", "aria-label": "Current job" },
          h("div", { class: "vg-stage vg-blank", "aria-hidden": "true" }, "▶"),
          h("p", {}, "Your clip appears here while it is made."),
          h("p", { class: "vg-quiet" }, "Close the tab if you like: the job is the server's and goes on."),
        ),
      );
    }
    return 2000;
  }

  /** Say why nothing can be told of the job; empty: it can. */
  sayLost(why) {
    if (this.lost === why) return;
    this.lost = why;
    this.querySelector(".vg-lost")?.remove();
    if (why) this.prepend(h("p", { class: "vg-problem vg-lost", role: "status" }, why));
  }

  draw(video) {
    this.shown = video;
    const ended = ENDED.includes(video.state);
    const form = `${video.id}:${ended ? video.state : "open"}:${video.run}`;
    if (this.drawn !== form) {
      this.drawn = form;
      if (ended) this.drawEnd(video);
      else this.drawOpen(video);
    }
    if (!ended) this.update(video);
  }

  drawOpen(video) {
    this.said = h("p", { class: "vg-state", "aria-live": "polite" });
    this.bar = h("progress", { max: 100, value: 0, "aria-label": "Progress" });
    this.eta = h("p", { class: "vg-quiet vg-eta" });
    this.picture = h("img", { alt: "Preview of the clip as it is now", class: "vg-preview", hidden: true });
    this.film = h("div");
    this.playing = false;
    this.step = "";
    this.pause = button("Pause", (event) => act(event.currentTarget, () => this.toggle()));
    const stop = button("Stop and keep", (event) => act(event.currentTarget, () => post(`videos/${video.id}/cancel`)), {
      title: "Stop after this step; what is made of it stays",
    });
    const drop = button("Discard", (event) => act(event.currentTarget, () => this.discard(video)), {
      class: "vg-button vg-danger",
    });
    this.replaceChildren(
      h(
        "section",
        { class: "vg-card vg-live", "aria-label": "Current job", "data-job": video.id },
        h("div", { class: "vg-stage" }, h("span", { class: "vg-pulse", "aria-hidden": "true" }), this.picture, this.film),
        h("h2", { class: "vg-prompt" }, titleOf(video)),
        this.said,
        this.bar,
        this.eta,
        h("div", { class: "vg-row" }, this.pause, stop, drop),
        chipsOf(video),
      ),
    );
  }

  update(video) {
    this.video = video;
    this.said.textContent = stateOf(video);
    this.bar.value = video.progress;
    this.pause.textContent = video.state === "paused" ? "Resume" : "Pause";
    this.eta.textContent = etaOf(video);
    const step = `${video.clips_completed}/${video.step}`;
    if (BUSY.includes(video.state) && video.step && step !== this.step) {
      this.step = step;
      this.preview(video, step);
    }
    if (video.kind === "chain" && video.clips_completed > 0 && !this.playing) {
      this.playing = true;
      this.film.replaceChildren(growing(video));
    }
  }

  /** Bring the next preview behind the one that is shown, so that nothing flickers. */
  preview(video, step) {
    const next = new Image();
    next.onload = () => {
      this.picture.src = next.src;
      this.picture.hidden = false;
      this.picture.style.aspectRatio = `${video.width} / ${video.height}`;
    };
    next.src = content(video.id, "preview", `&step=${encodeURIComponent(step)}`);
  }

  async discard(video) {
    const lost = `“${[...titleOf(video)].slice(0, 80).join("")}” is stopped, and what is made of it is deleted.`;
    if (await sure("Discard?", lost, "Discard it")) await api(`videos/${video.id}`, { method: "DELETE" });
  }

  async toggle() {
    await post(`videos/${this.video.id}/${this.video.state === "paused" ? "resume" : "pause"}`);
    this.wake();
  }

  drawEnd(video) {
    const stage = h("div", { class: "vg-stage" });
    if (video.state === "completed" && video.variants.video) {
      const player = h("vidgen-player");
      player.show(video);
      stage.append(player);
      player.media.play().catch(() => {});
    } else {
      const why = video.error ? video.error.message : `${stateOf(video)}. Nothing more is made of it.`;
      stage.append(h("p", { class: "vg-problem", role: "status" }, why));
    }
    const changed = (job) => (job?.deleted ? this.look() : this.follow(video.id));
    this.replaceChildren(
      h(
        "section",
        { class: "vg-card vg-live", "aria-label": "Current job", "data-job": video.id },
        stage,
        h("h2", { class: "vg-prompt" }, titleOf(video)),
        h("p", { class: "vg-state" }, stateOf(video)),
        chipsOf(video),
        actionsOf(video, changed),
      ),
    );
  }
}

export function etaOf(video) {
  if (!video.eta_s) return "";
  const { p50, p90 } = video.eta_s;
  return `Ready in about ${seconds(p50)}${p90 > p50 * 1.2 ? `, at most ${seconds(p90)}` : ""}`;
}

customElements.define("vidgen-live", Live);
