/* Storyboard: a long video told card by card; a card is made anew without losing the others. */
import { BUSY, ENDED, act, api, button, counted, h, number, poll, post, seconds, stateOf, tell } from "./lib.js";
import { remember, remembered } from "./store.js";
import { driftStrip } from "./drift.js";
import { growing } from "./growing.js";
import { go, onPage } from "./routing.js";
import { blank, carry, draft, keepDraft, known, replaceDraft, write, written } from "./story_draft.js";
import { storyForm } from "./story_form.js";
import { etaOf } from "./live.js";
import { familyOf, takeOf, takesOf, takeTree } from "./takes.js";
import { copyAs } from "./copy.js";
import "./film.js";
import "./player.js";

const NONE = [400, 404, 409, 410, 422]; // there is no such storyboard, or none any more
const COLOURS = { made: "completed", making: "running", waiting: "queued", failed: "failed", stale: "stale" };

class Board extends HTMLElement {
  connectedCallback() {
    this.schema = JSON.parse(this.getAttribute("schema"));
    this.limits = JSON.parse(this.getAttribute("limits"));
    this.settings = remembered("board.settings", {});
    this.turn = 0;
    this.chosen = h("select", { "aria-label": "Storyboard", change: () => this.choose(this.chosen.value) });
    this.cards = h("ol", { class: "vg-cards" });
    this.foot = h("div", { class: "vg-story-foot" });
    this.said = h("p", { class: "vg-quiet", "aria-live": "polite" });
    this.film = h("div", { class: "vg-twocol" });
    this.more = h("div", { class: "vg-more" });
    this.replaceChildren(
      h("div", { class: "vg-bar" }, h("h1", {}, "Storyboard"), this.chosen,
        button("New", () => this.begin([blank()]))),
      this.cards, this.foot, this.said, this.film, this.more);
    onPage("storyboard", (id) => this.enter(id));
    this.wake = poll(this, () => this.look());
  }

  choose(id) {
    remember("board.open", id || null);
    if (location.hash === `#storyboard${id ? `/${id}` : ""}`) this.enter(id);
    else go("storyboard", id);
  }

  /** Go on with other shots as the draft, and with other settings where they are given. */
  async begin(shots, settings = null) {
    if (!(await replaceDraft(shots))) return;
    if (settings) remember("board.settings", (this.settings = settings));
    this.choose("");
  }

  enter(id) {
    const open = id || remembered("board.open");
    this.current = open || null;
    this.shown = "";
    this.drawn = null;
    this.playing = "";
    this.cards.inert = true; // until those of this one are drawn: what is typed in others would be theirs
    this.film.replaceChildren();
    if (!this.current) this.draft();
    this.wake?.();
    this.list();
  }

  async list() {
    const { current } = this;
    const found = await api("storyboards?limit=30").catch(() => ({ data: [] }));
    if (this.current !== current) return; // another one was chosen meanwhile
    const names = found.data.map((board) => [board.id, (board.title || board.story.shots[0].prompt).slice(0, 48)]);
    if (current && !names.some(([id]) => id === current)) names.unshift([current, "An earlier take"]);
    this.chosen.replaceChildren(...[["", "Draft"], ...names].map(([value, text]) => h("option", { value, selected: value === (current ?? "") }, text)));
  }

  // A draft: cards that only this browser knows
  draft() {
    this.shots = draft();
    this.draw();
  }

  save() {
    keepDraft(this.shots);
    remember("board.settings", this.settings);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.estimate(); this.copy.refresh(); }, 500);
  }

  draw() {
    this.cards.inert = false;
    this.cards.replaceChildren(...this.shots.map((shot, k) => this.draftCard(shot, k)));
    this.foot.replaceChildren(
      h("div", { class: "vg-row" },
        button("Add a shot", () => this.edit(() => this.shots.push(blank()))),
        button("Render", (event) => act(event.currentTarget, () => this.render()), { class: "vg-button vg-main", id: "render-board" })),
      storyForm(this.schema, this.settings, () => this.save()));
    this.copy = copyAs(() => this.story());
    this.more.replaceChildren(this.copy);
    this.save();
  }

  edit(change) {
    change();
    this.draw();
  }

  draftCard(shot, k) {
    const move = (by) => () => this.edit(() => this.shots.splice(k + by, 0, ...this.shots.splice(k, 1)));
    return h("li", { class: "vg-card vg-shot" },
      h("div", { class: "vg-row vg-between" }, h("b", {}, `Shot ${k + 1}`), h("div", { class: "vg-row" },
        button("←", move(-1), { disabled: k === 0, "aria-label": `Move shot ${k + 1} forward` }),
        button("→", move(1), { disabled: k === this.shots.length - 1, "aria-label": `Move shot ${k + 1} back` }))),
      ...this.fields(shot, k, () => this.save()),
      h("div", { class: "vg-row" },
        button("Duplicate", () => this.edit(() => this.shots.splice(k + 1, 0, { ...shot }))),
        button("Remove", () => this.edit(() => this.shots.splice(k, 1)), { disabled: this.shots.length === 1, class: "vg-button vg-danger" })));
  }

  fields(shot, k, changed) {
    const put = (name, read = (text) => text) => (event) => {
      const value = read(event.target.value.trim());
      if (value === null || value === "") delete shot[name];
      else shot[name] = value;
      changed();
    };
    const follows = this.schema.$defs.Shot.properties.transition.anyOf[0].enum;
    return [
      h("label", { for: `prompt-${k}` }, "What it shows"),
      h("textarea", { id: `prompt-${k}`, input: put("prompt") }, shot.prompt ?? ""),
      h("div", { class: "vg-two" },
        h("label", {}, "Seconds", h("input", { type: "number", min: 0.1, step: "any", value: String(shot.seconds ?? ""), input: put("seconds", number) })),
        h("label", {}, "Seed", h("input", { type: "text", inputmode: "numeric", value: String(shot.seed ?? ""), placeholder: "drawn", input: put("seed", number) }))),
      k > 0 && h("label", {}, "Follows by ", h("select", { change: put("transition") },
        ["", ...follows].map((word) => h("option", { value: word, selected: word === (shot.transition ?? "") }, word || "as it fits")))),
    ].filter(Boolean);
  }

  story() {
    const shots = this.shots.map((shot) => Object.fromEntries(Object.entries(shot).filter(([, value]) => value !== null && value !== "")));
    const parts = Object.entries(this.settings).filter(([, value]) => typeof value !== "object" || Object.keys(value).length);
    return { shots, ...Object.fromEntries(parts) };
  }

  async estimate() {
    if (this.current) return;
    const turn = (this.turn += 1);
    const said = this.shots.every((shot) => shot.prompt) ? await this.cost() : "Write what each shot shows.";
    if (turn === this.turn && !this.current) this.said.textContent = said; // else a later answer stands there
  }

  /** Return in words what the draft becomes and takes. */
  async cost() {
    try {
      const found = await api("videos/estimate", { method: "POST", data: { story: this.story() } });
      const cost = found.estimate.seconds;
      const notes = found.adjustments.map((item) => `${item.field}: ${item.asked} → ${item.used}, ${item.why}`);
      return `${counted(found.num_clips, "clip")}, ${found.num_frames} frames = ${found.seconds.toFixed(2)} s; takes ${seconds(cost.low)} to ${seconds(cost.high)}. ${notes.join("; ")}`;
    } catch (error) {
      return error.message;
    }
  }

  async render() {
    const shots = structuredClone(this.shots);
    const made = await post("storyboards", this.story());
    known(shots);
    this.choose(made.id);
  }

  // A storyboard of the server
  async look() {
    const { current } = this;
    if (!current) return 3000;
    let board;
    try {
      board = await api(`storyboards/${encodeURIComponent(current)}`);
    } catch (error) {
      if (this.current === current && NONE.includes(error.status)) this.leave(error);
      throw error;
    }
    if (this.current !== current) return 0;
    const { video } = board;
    this.said.textContent = [stateOf(video), etaOf(video), video.error?.message].filter(Boolean).join(" · ");
    const form = JSON.stringify([board.id, video.state, board.cards.map((card) => card.state)]);
    if (form !== this.shown) {
      const family = await familyOf(video);
      if (this.current !== board.id) return 100;
      this.shown = form;
      this.drawBoard(board, family);
    }
    this.play(video);
    return ENDED.includes(video.state) ? 4000 : 1000;
  }

  /** Say why a storyboard cannot be shown, and open the draft; the way back leads past it. */
  leave(error) {
    const why = error.status === 409 ? error.message.replace(/\.$/, "") : "There is no such storyboard any more";
    remember("board.open", null);
    history.replaceState(history.state, "", `${location.pathname}${location.search}#storyboard`);
    this.enter("");
    tell(`${why}; the draft is open instead.`, true);
  }

  /** Draw a storyboard; one that is drawn already keeps its fields, and whoever writes in them. */
  drawBoard(board, family) {
    this.cards.inert = false;
    const cards = [...this.cards.children];
    if (this.drawn === board.id) board.cards.forEach((card, k) => cards[k].update(board, card, family));
    else this.cards.replaceChildren(...board.cards.map((card) => this.card(board, card, family)));
    this.drawn = board.id;
    const held = this.foot.contains(document.activeElement);
    const text = document.activeElement?.textContent;
    this.drawFoot(board);
    const buttons = [...this.foot.querySelectorAll("button")];
    if (held) (buttons.find((other) => other.textContent === text) ?? buttons[0]).focus();
    this.more.replaceChildren(copyAs(() => board.story));
  }

  drawFoot(board) {
    const ended = ENDED.includes(board.video.state);
    this.foot.replaceChildren(h("div", { class: "vg-row" },
      board.stale.length > 0 && button(`Render ${counted(board.stale.length, "stale card")}`, (event) => act(event.currentTarget, async () =>
        this.goOn(board, await post(`storyboards/${board.id}/render`))), { class: "vg-button vg-main", disabled: !ended }),
      !ended && button("Stop and keep", (event) => act(event.currentTarget, () => post(`videos/${board.video.id}/cancel`))),
      ended && board.video.state !== "completed" && button("Go on", (event) => act(event.currentTarget, () => post(`videos/${board.video.id}/resume`))),
      board.parent && button("Earlier take", () => this.choose(board.parent)),
      button("Copy as a draft", () =>
        this.begin(board.cards.map((card) => ({ seed: card.seed, ...written(board.id, card) })), settingsOf(board)))));
  }

  /** Open the storyboard that was made of another one, with what is written in its cards. */
  goOn(board, made) {
    carry(board.id, made.id);
    this.choose(made.id);
  }

  card(board, card, family) {
    const shot = written(board.id, card);
    const changed = h("p", { class: "vg-quiet" }, "Changed: re-roll it to have it made so.");
    const lacks = h("p", { class: "vg-problem", role: "alert", hidden: true });
    const changes = () => changesOf(card, shot);
    const keep = () => {
      changed.hidden = !Object.keys(changes()).length;
      lacks.hidden = true;
      write(board.id, card.index, changed.hidden ? null : shot);
    };
    changed.hidden = !Object.keys(changes()).length;
    const reroll = async (rest) => {
      lacks.textContent = lackOf(shot, card.index);
      lacks.hidden = !lacks.textContent;
      if (!lacks.hidden) return;
      const made = await post(`storyboards/${board.id}/cards/${card.index}/reroll`, { ...changes(), rest });
      write(board.id, card.index, null);
      this.goOn(board, made);
    };
    const again = (text, rest, title) => button(text, (event) => act(event.currentTarget, () => reroll(rest)), { title });
    const presses = [
      again("Re-roll", "stale", "Make this card anew; later cards stay and become stale"),
      again("Re-roll this and the rest", "render", "Make this card and all later ones anew"),
    ];
    const badge = h("span");
    const pictures = h("div");
    pictures.style.display = "contents";
    const made = h("li", { "data-card": String(card.index) },
      h("div", { class: "vg-row vg-between" }, h("b", {}, `Shot ${card.index + 1}`), badge),
      pictures,
      ...this.fields(shot, card.index, keep).map((part, k) => (k === 2 ? withSeed(part, card) : part)),
      changed, lacks, h("div", { class: "vg-row" }, presses));
    made.update = (board, card, family) => {
      const ended = ENDED.includes(board.video.state);
      if (made.dataset.state !== card.state) {
        made.dataset.state = badge.textContent = card.state;
        made.className = `vg-card vg-shot${card.state === "stale" ? " vg-isstale" : ""}`;
        badge.className = `vg-badge vg-${COLOURS[card.state]}`;
        pictures.replaceChildren(...this.pictures(card, family).filter(Boolean));
      }
      for (const press of presses) press.disabled = !ended;
    };
    made.update(board, card, family);
    return made;
  }

  /** The card's clip with its last frame, and the takes that it can be exchanged for. */
  pictures(card, family) {
    const takes = takesOf(family, card.index);
    const current = takeOf(family, takes, card);
    if (!current) return [h("div", { class: "vg-film vg-none", "aria-hidden": "true" })];
    const film = h("vidgen-film");
    const open = button("", () => {}, { hidden: true });
    const look = (take) => {
      film.show(take.video, take.clips, `shot ${card.index + 1}, take ${take.number}`);
      open.hidden = take === current;
      open.textContent = `Open the storyboard of take ${take.number}`;
      open.onclick = () => this.choose(take.video);
    };
    look(current);
    return [film, takes.length > 1 && h("div", {}, takeTree(takes, current, look), open)];
  }

  play(video) {
    const open = !ENDED.includes(video.state);
    const form = `${video.id}:${open ? "open" : video.state}:${video.clips_completed > 0}`;
    if (form === this.playing) return;
    this.playing = form;
    const parts = [];
    if (open && video.clips_completed > 0) parts.push(h("div", { class: "vg-stage" }, growing(video)));
    if (!open && video.variants.video) {
      const player = h("vidgen-player");
      player.show(video);
      parts.push(h("div", { class: "vg-stage" }, player));
      const drift = video.report?.drift;
      if (drift) parts.push(driftStrip(drift, this.limits, (frame) => this.seam(player, frame)));
    }
    if (BUSY.includes(video.state)) parts.push(h("p", { class: "vg-quiet" }, "Playing goes on with each clip that is made."));
    this.film.replaceChildren(...parts);
  }

  /** Play eight frames on both sides of a seam. */
  seam(player, frame) {
    const media = player.media;
    media.currentTime = Math.max(0, (frame - 8 + 0.5) / player.fps);
    media.play();
    clearInterval(this.until);
    this.until = setInterval(() => {
      if (media.currentTime < (frame + 8) / player.fps && !media.paused) return;
      media.pause();
      clearInterval(this.until);
    }, 30);
  }
}

/** Return what a card's shot asks for otherwise than it was made; without a seed, one is drawn. */
function changesOf(card, shot) {
  const found = {};
  for (const name of ["prompt", "seconds", "transition"]) {
    if ((shot[name] ?? null) !== (card[name] ?? null)) found[name] = shot[name] ?? null;
  }
  if (found.transition === null) found.transition = card.image ? "cut" : "continue"; // so it fits; a null would change nothing
  return (shot.seed ?? null) === null ? found : { ...found, seed: shot.seed };
}

/** Say what a card needs before it can be made anew; empty: nothing. */
function lackOf(shot, k) {
  if (!shot.prompt) return `Write what shot ${k + 1} shows.`;
  return (shot.seconds ?? null) === null ? `Write how many seconds shot ${k + 1} takes.` : "";
}

/** Return a storyboard's settings as the draft's form has them. */
function settingsOf({ story: { shots, ...rest } }) {
  const set = (part) => Object.fromEntries(Object.entries(part).filter(([, value]) => value !== null));
  return Object.fromEntries(Object.entries(set(rest)).map(([name, part]) => [name, typeof part === "object" ? set(part) : part]));
}

function withSeed(part, card) {
  const box = part.querySelectorAll("input")[1];
  if (box) box.placeholder = card.seed ?? "drawn anew";
  return part;
}

customElements.define("vidgen-storyboard", Board);
