/* Vote: which of two clips is better, asked without saying which is which. */
import { button, content, h, rateOf, sharedFrames } from "./lib.js";
import { remember, remembered } from "./store.js";
import { Clock } from "./clock.js";
import { apart } from "./differ.js";

const MOST = 2000;
const NEITHER = "no difference";

/** Return the name under which answers about such a pair are kept, the same for both orders. */
const pairOf = (videos) => [...apart(videos)].sort().join(" | ");

/** Return how the answers about clips that differ so have fallen: {what sets one apart: count}. */
export function tally(videos) {
  const count = Object.fromEntries([...apart(videos), NEITHER].map((name) => [name, 0]));
  for (const vote of remembered("votes", [])) if (vote.of === pairOf(videos)) count[vote.choice] += 1;
  return count;
}

export function forget(videos) {
  remember("votes", remembered("votes", []).filter((vote) => vote.of !== pairOf(videos)));
}

/** How often chance alone splits n answers at least as unevenly as k to n - k. */
export function byChance(k, n) {
  const fewer = Math.min(k, n - k);
  let [term, sum] = [0.5 ** n, 0];
  for (let at = 0; at <= fewer; at++) {
    sum += term;
    term *= (n - at) / (at + 1);
  }
  return Math.min(1, 2 * sum);
}

/** Return the answers in words, null where there are none. */
export function told(videos, changed) {
  const count = tally(videos);
  const all = Object.values(count).reduce((sum, value) => sum + value, 0);
  if (!all) return null;
  const [a, b] = apart(videos);
  const judged = count[a] + count[b];
  const chance = judged && Math.round(100 * byChance(count[a], judged));
  return h("section", { class: "vg-card", "aria-label": "Blind votes" }, h("h2", {}, `Blind votes: ${all}`),
    h("ul", { class: "vg-tally" }, Object.entries(count).map(([name, votes]) => h("li", {}, h("span", {}, name === NEITHER ? name : `${name} is better`),
      h("meter", { min: 0, max: all, value: votes, "aria-label": name }), h("b", {}, String(votes))))),
    judged > 0 && h("p", { class: "vg-quiet" }, `If there were no difference, answers as uneven as ${Math.max(count[a], count[b])} to ${Math.min(count[a], count[b])} would come ${chance} times in 100. The answers are kept in this browser.`),
    button("Forget these answers", () => { forget(videos); changed(); }));
}

/** The room: two players without names; `leave` is called at its end. */
export class Blind extends HTMLElement {
  constructor(videos, leave) {
    super();
    Object.assign(this, { videos: videos.slice(0, 2), leave, round: 0 });
  }

  connectedCallback() {
    this.next();
  }

  disconnectedCallback() {
    this.clock?.stop();
  }

  next() {
    this.clock?.stop();
    this.round += 1;
    const turned = crypto.getRandomValues(new Uint8Array(1))[0] & 1;
    this.order = turned ? [...this.videos].reverse() : this.videos;
    const films = this.order.map((video, k) => h("video", { src: content(video.id), muted: true, playsinline: true, preload: "auto", "aria-label": ["Left", "Right"][k] }));
    const play = button("Pause", () => {
      this.clock[this.clock.playing ? "pause" : "play"]();
      play.textContent = this.clock.playing ? "Pause" : "Play";
    });
    const choices = [["Left is better", 0], ["No difference", null], ["Right is better", 1]];
    this.replaceChildren(h("section", { class: "vg-card", "aria-label": "Blind vote" },
      h("div", { class: "vg-row vg-between" }, h("h2", {}, `Which is better? Round ${this.round}`),
        button("End and show the count", () => this.leave(), { id: "blind-end" })),
      h("div", { class: "vg-players vg-two-up" }, films.map((film, k) => h("figure", {}, film, h("figcaption", {}, ["Left", "Right"][k])))),
      h("div", { class: "vg-row vg-choices" }, choices.map(([name, k]) => button(name, () => this.choose(k), { class: "vg-button vg-main", "data-choice": k === null ? "none" : String(k) })), play),
      h("p", { class: "vg-quiet" }, "The sides are drawn anew each round, and nothing tells which clip is which until you end it.")));
    this.clock = new Clock(films, rateOf(this.order[0]), sharedFrames(this.order), () => {});
    this.clock.play();
    this.querySelector("[data-choice='0']").focus({ preventScroll: true });
  }

  choose(k) {
    const names = apart(this.videos);
    const choice = k === null ? NEITHER : names[this.videos.indexOf(this.order[k])];
    remember("votes", [...remembered("votes", []), { of: pairOf(this.videos), choice, clips: this.videos.map((video) => video.id), at: Date.now() }].slice(-MOST));
    this.next();
  }
}

customElements.define("vidgen-blind", Blind);
