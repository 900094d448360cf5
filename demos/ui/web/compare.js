/* Compare: two to four clips on one clock, side by side, wiped or subtracted; measured, judged blind, taken along. */
import { ENDED, act, api, badge, button, content, h, make, poll, rateOf, save, seconds, sharedFrames, stateOf, tell, titleOf } from "./lib.js";
import { remember, remembered } from "./store.js";
import { Clock } from "./clock.js";
import { denseAgainstTopK } from "./actions.js";
import { apart, differing } from "./differ.js";
import { fidelityOf } from "./fidelity.js";
import { go, onPage } from "./routing.js";
import { Blind, told } from "./vote.js";

const MOST = 4;
const MODES = [["side", "Side by side"], ["wipe", "Wipe"], ["difference", "Difference ×4"]];

class Compare extends HTMLElement {
  connectedCallback() {
    this.ids = [];
    this.mode = "side";
    this.add = h("select", { "aria-label": "Add a clip", change: () => this.choose([...this.ids, this.add.value]) });
    this.body = h("div");
    this.replaceChildren(
      h("div", { class: "vg-bar" }, h("h1", {}, "Compare"), this.add,
        button("Dense against top-k at this seed", (event) => act(event.currentTarget, () => denseAgainstTopK(this.videos[0])), { id: "dense-topk", disabled: true })),
      this.body);
    onPage("compare", (ids) => this.enter(ids ? ids.split(",") : remembered("compare", [])));
    this.wake = poll(this, () => this.look());
  }

  choose(ids) {
    const kept = [...new Set(ids.filter(Boolean))].slice(0, MOST);
    remember("compare", kept);
    go("compare", kept.join(","));
  }

  enter(asked) {
    const ids = [...new Set(asked.filter(Boolean))];
    if (ids.length > MOST) tell(`Of ${ids.length} clips the first four are shown; no more are compared at once.`, true);
    this.ids = ids.slice(0, MOST);
    this.blind = false;
    remember("compare", this.ids);
    this.form = "";
    this.wake?.();
  }

  async look() {
    const recent = await api("videos?limit=30&state=completed");
    const options = recent.data.filter((video) => !this.ids.includes(video.id)).map((video) => [video.id, `${titleOf(video).slice(0, 44)} · ${video.seed}`]);
    const list = JSON.stringify(options);
    if (list !== this.list && document.activeElement !== this.add) {
      this.list = list;
      this.add.replaceChildren(h("option", { value: "" }, "Add a clip…"), ...options.map(([value, name]) => h("option", { value }, name)));
    }
    const found = await Promise.all(this.ids.map((id) => api(`videos/${encodeURIComponent(id)}`).catch((error) => {
      if (![400, 404, 410, 422].includes(error.status)) throw error;
      return null;
    })));
    if (found.includes(null)) {
      tell("A clip that was compared is gone.", true);
      this.enter(this.ids.filter((_, k) => found[k]));
      const where = `#compare/${this.ids.join(",")}`;
      history.replaceState(history.state, "", `${location.pathname}${location.search}${where}`); // the way back leads past what is gone
      return 0;
    }
    this.videos = found;
    this.add.disabled = found.length >= MOST;
    const clip = this.videos[0];
    this.querySelector("#dense-topk").disabled = !(clip?.kind === "clip" && clip.request);
    const ready = this.videos.every((video) => ENDED.includes(video.state));
    const form = JSON.stringify([this.mode, this.videos.map((video) => [video.id, ready ? video.state : stateOf(video)])]);
    if (form !== this.form) {
      this.form = form;
      this.draw(ready);
    }
    return ready ? 4000 : 1000;
  }

  draw(ready) {
    this.clock?.stop();
    this.clock = null;
    const playable = this.videos.filter((video) => video.variants.video);
    if (!this.videos.length) {
      this.body.replaceChildren(h("p", { class: "vg-card vg-quiet" }, "Choose two to four clips: here, or with “Compare with…” beside any clip."));
    } else if (!ready) {
      this.body.replaceChildren(h("div", { class: "vg-players" }, this.videos.map((video) => h("figure", { class: "vg-card" },
        h("figcaption", {}, this.nameOf(video)), badge(video), h("progress", { max: 100, value: video.progress, "aria-label": "Progress" }), h("p", { class: "vg-quiet" }, stateOf(video))))));
    } else if (this.blind && playable.length > 1) {
      this.body.replaceChildren(new Blind(playable, () => this.see(false)));
    } else {
      this.films = playable.map((video) => h("video", { src: content(video.id), muted: true, playsinline: true, preload: "auto", "data-video": video.id, "aria-label": this.nameOf(video) }));
      const two = playable.length > 1;
      this.fidelity = two ? fidelityOf(playable, (frame) => { this.halt(); this.clock.seek(frame); }) : null;
      this.body.replaceChildren(...[this.stage(playable), this.control(), two && this.further(playable), this.fidelity,
        two && told(playable.slice(0, 2), () => this.see(false)), this.settings(), this.figures()].filter(Boolean));
      this.run(playable);
    }
  }

  /** Enter or leave the room where it is not said which clip is which. */
  see(blind) {
    this.blind = blind;
    this.form = "";
    this.wake();
  }

  further(videos) {
    const takes = (work, file) => (event) => act(event.currentTarget, async () =>
      save(await make(work, { clips: videos.map((video) => video.id), labels: apart(videos) }), file), "Writes…");
    return h("div", { class: "vg-row vg-further" },
      button("Blind vote", () => this.see(true), { id: "blind-vote", title: "Judge the first two without knowing which is which" }),
      button("Save side by side (mp4)", takes("film", "compare.mp4"), { id: "save-film" }),
      button("Save frames (png)", takes("sheet", "compare.png"), { id: "save-sheet" }));
  }

  nameOf(video) {
    return `${video.request?.attention ?? "model's own"} attention · ${titleOf(video).slice(0, 60)}`;
  }

  stage(videos) {
    const two = this.films.length > 1;
    const [first, second] = this.films;
    if (this.mode === "side" || !two) {
      return h("div", { class: "vg-players" }, videos.map((video, k) => h("figure", { class: "vg-card" }, this.films[k],
        h("figcaption", {}, this.nameOf(video)), h("div", { class: "vg-row" }, badge(video),
          button("Remove", () => this.choose(this.ids.filter((id) => id !== video.id)), { "aria-label": `Remove clip ${k + 1}` })))));
    }
    if (this.mode === "difference") {
      this.canvas = h("canvas", { role: "img", "aria-label": "Difference of the first two clips, four times as strong" });
      return h("div", { class: "vg-wipe" }, this.canvas, h("div", { class: "vg-hidden" }, this.films));
    }
    second.classList.add("vg-over-it");
    this.edge = h("div", { class: "vg-edge" });
    return h("div", { class: "vg-wipe" }, first, second, this.edge, h("div", { class: "vg-hidden" }, this.films.slice(2)));
  }

  control() {
    this.play = button("Play", () => this.toggle(), { class: "vg-button vg-main", id: "compare-play" });
    this.range = h("input", { type: "range", min: 0, value: "0", "aria-label": "Frame", input: () => { this.halt(); this.clock.seek(Number(this.range.value)); } });
    this.place = h("output", {});
    this.wipe = h("input", { type: "range", min: "0", max: "100", value: "50", "aria-label": "Wipe", input: () => this.cut() });
    return h("section", { class: "vg-card", "aria-label": "Control" },
      h("div", { class: "vg-control" }, this.play, this.range, this.place),
      h("div", { class: "vg-row" },
        button("◀ frame", () => { this.halt(); this.clock.seek(this.clock.frame - 1); }, { "aria-label": "One frame back" }),
        button("frame ▶", () => { this.halt(); this.clock.seek(this.clock.frame + 1); }, { "aria-label": "One frame on" }),
        MODES.map(([name, title]) => button(title, () => { this.mode = name; this.form = ""; this.wake(); }, { class: "vg-button vg-switch", "aria-pressed": String(this.mode === name), disabled: this.films.length < 2 && name !== "side" }))),
      this.mode === "wipe" && this.films.length > 1 && h("div", { class: "vg-control" }, h("span", { class: "vg-quiet" }, "Wipe"), this.wipe));
  }

  halt() {
    if (this.clock.playing) this.toggle();
  }

  toggle() {
    if (this.clock.playing) this.clock.pause();
    else this.clock.play();
    this.play.textContent = this.clock.playing ? "Pause" : "Play";
  }

  cut() {
    if (this.mode !== "wipe" || this.films.length < 2) return;
    this.films[1].style.clipPath = `inset(0 0 0 ${this.wipe.value}%)`;
    this.edge.style.left = `${this.wipe.value}%`;
  }

  run(videos) {
    const frames = sharedFrames(videos);
    this.range.max = frames - 1;
    this.clock = new Clock(this.films, rateOf(videos[0]), frames, (frame) => {
      this.place.textContent = `frame ${frame + 1} of ${frames}`;
      if (document.activeElement !== this.range) this.range.value = frame;
      if (this.mode === "difference") this.subtract();
      this.fidelity?.mark(frame);
    });
    this.cut();
  }

  subtract() {
    const [first, second] = this.films;
    const { canvas } = this;
    if (!canvas?.isConnected || !second?.videoWidth || !first.videoWidth) return;
    if (canvas.width !== first.videoWidth) [canvas.width, canvas.height] = [first.videoWidth, first.videoHeight];
    const paint = canvas.getContext("2d");
    paint.globalCompositeOperation = "source-over";
    paint.drawImage(first, 0, 0, canvas.width, canvas.height);
    paint.globalCompositeOperation = "difference";
    paint.drawImage(second, 0, 0, canvas.width, canvas.height);
    paint.globalCompositeOperation = "lighter";
    for (const _ of [1, 2]) paint.drawImage(canvas, 0, 0);
  }

  settings() {
    return this.table("What differs", differing(this.videos), "All settings are the same.");
  }

  figures() {
    const cost = (video) => (video.usage?.gpu_seconds ? seconds(video.usage.gpu_seconds) : "–");
    return this.table("What it cost and gave", [
      ["Work", ...this.videos.map(cost)],
      ["Denoising", ...this.videos.map((video) => (video.usage?.stages?.denoise ? seconds(video.usage.stages.denoise) : "–"))],
      ["Size", ...this.videos.map((video) => `${video.size.replace("x", "×")}, ${video.num_frames} frames`)],
      ["Drift", ...this.videos.map((video) => video.report?.drift?.verdict?.overall ?? "–")],
      ["Adjusted", ...this.videos.map((video) => video.adjustments.length)],
    ]);
  }

  table(title, rows, otherwise = "") {
    return h("section", { class: "vg-card", "aria-label": title }, h("h2", {}, title), rows.length
      ? h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", { class: "vg-table" },
        h("thead", {}, h("tr", {}, h("td", {}), this.videos.map((_, k) => h("th", { scope: "col" }, `Clip ${k + 1}`)))),
        h("tbody", {}, rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell)))))))
      : h("p", { class: "vg-quiet" }, otherwise));
  }
}

customElements.define("vidgen-compare", Compare);
