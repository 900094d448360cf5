/* Queue: what waits and runs, in order, and what ended lately with its reason in words. */
import { BUSY, ENDED, act, api, ago, badge, button, content, h, poll, post, stateOf, tell, titleOf } from "./lib.js";
import { etaOf } from "./live.js";
import { follow, goOn, toForm, wordOf } from "./actions.js";
import { go } from "./routing.js";

const PAGE = 100;

/** Return the first pages of the queue, as it will run, and whether there are more. */
async function listed(query, pages = Infinity) {
  const jobs = new Map();
  let last = null;
  for (let k = 0; k < pages; k++) {
    const after = last ? `&after=${last}` : "";
    const page = await api(`videos?limit=${PAGE}&order=queue${query}${after}`).catch((error) => {
      if (after && error.status === 404) return null;
      throw error;
    });
    if (!page) return listed(query, pages); // the job to go on after was deleted
    for (const video of page.data) {
      jobs.delete(video.id); // it has moved since the page before
      jobs.set(video.id, video);
    }
    if (!page.has_more) return { jobs, more: false };
    last = page.last_id;
  }
  return { jobs, more: true };
}

/** Whether no worker has begun a job yet: it can still be changed. */
const unbegun = (video) => ["queued", "held", "paused"].includes(video.state) && !video.started_at;

class Queue extends HTMLElement {
  connectedCallback() {
    this.turn = 0;
    this.pages = 1;
    this.open = h("tbody");
    this.ended = h("tbody");
    this.next = button("Show more", (event) => act(event.currentTarget, () => this.further()), { hidden: true });
    this.empty = h("p", { class: "vg-quiet" }, "Nothing waits and nothing runs.");
    const head = (names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
    this.replaceChildren(
      h("div", { class: "vg-bar" },
        h("h1", {}, "Queue"),
        button("Pause all waiting", (event) => act(event.currentTarget, () => this.all("queued", "pause"))),
        button("Resume all paused", (event) => act(event.currentTarget, () => this.all("paused", "resume")))),
      h("section", { class: "vg-card", "aria-label": "Waiting and running" },
        h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": "Waiting and running jobs" },
          h("table", { class: "vg-table vg-jobs" }, head(["", "Clip", "State", "Size", "Order", "Actions"]), this.open)),
        this.next, this.empty),
      h("section", { class: "vg-card", "aria-label": "Ended lately" },
        h("h2", {}, "Ended lately"),
        h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": "Jobs that ended" },
          h("table", { class: "vg-table vg-jobs" }, head(["", "Clip", "State", "What happened", "Actions"]), this.ended))),
    );
    this.wake = poll(this, () => this.look());
  }

  async look() {
    const turn = (this.turn += 1);
    const found = await this.found();
    if (turn !== this.turn) return 1500; // a later look is under way, or was faster
    const runs = (video) => BUSY.includes(video.state);
    const rows = found.open.sort((a, b) => runs(b) - runs(a));
    this.fill(this.open, rows, (video, k) => this.row(video, rows, k));
    this.fill(this.ended, found.ended, (video) => this.end(video));
    this.empty.hidden = rows.length > 0;
    this.next.hidden = !found.more;
    return rows.length ? 1500 : 3000;
  }

  /** Return what is open and what ended, asked for in this order: what goes on meanwhile is in two answers, not in none. */
  async found() {
    const states = (names) => names.map((name) => `state=${name}`).join("&");
    const { jobs, more } = await listed("", this.pages);
    const busy = await api(`videos?limit=${PAGE}&${states(BUSY)}`); // also what began behind a page that was read
    const ended = await api(`videos?limit=12&${states(ENDED)}`);
    for (const video of busy.data) jobs.set(video.id, video);
    for (const video of ended.data) jobs.delete(video.id);
    return { open: [...jobs.values()], ended: ended.data, more };
  }

  async further() {
    this.pages += 1;
    await this.look();
  }

  /** Draw rows where they changed, and leave the focus where it was. */
  fill(body, videos, draw) {
    const form = JSON.stringify(videos.map((video) => [video.id, stateOf(video), video.progress, etaOf(video), video.prompt]));
    if (body.form === form) return;
    body.form = form;
    const focus = body.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    body.replaceChildren(...videos.map(draw));
    if (focus) body.querySelector(`[data-at="${focus}"]`)?.focus();
  }

  row(video, rows, k) {
    const waits = video.state === "queued";
    const does = (text, name, work, more = {}) =>
      button(text, (event) => act(event.currentTarget, async () => { await work(); this.turn += 1; this.wake(); }),
        { "data-at": `${video.id}-${name}`, ...more });
    const before = rows.slice(0, k).reverse().find((other) => other.state === "queued");
    const after = rows.slice(k + 1).find((other) => other.state === "queued");
    const move = (data) => () => post(`videos/${video.id}/move`, data);
    const named = titleOf(video).slice(0, 60);
    return h("tr", { "data-job": video.id },
      h("td", {}, this.thumb(video)),
      h("td", { class: "vg-name" }, h("button", { type: "button", class: "vg-link", "data-at": `${video.id}-open`, click: () => follow(video) }, titleOf(video)),
        h("div", { class: "vg-quiet" }, `${video.model} · ${ago(video.created_at)}${video.run && video.started_at ? " · gone on with after a break" : ""}`)),
      h("td", {}, badge(video), h("div", { class: "vg-quiet" }, stateOf(video)),
        BUSY.includes(video.state) && h("progress", { max: 100, value: video.progress, "aria-label": "Progress" }),
        h("div", { class: "vg-quiet" }, etaOf(video))),
      h("td", {}, `${video.size.replace("x", "×")}`, h("div", { class: "vg-quiet" }, `${video.num_frames} frames`)),
      h("td", {}, waits ? h("div", { class: "vg-row" },
        does("↑", "up", move({ before: before?.id }), { disabled: !before, "aria-label": `Move up: ${named}` }),
        does("↓", "down", move({ after: after?.id }), { disabled: !after, "aria-label": `Move down: ${named}` }),
        does("First", "first", move({ to: "first" }))) : "–"),
      h("td", {}, h("div", { class: "vg-row" },
        unbegun(video) && video.kind === "clip" && does("Edit", "edit", () => toForm(video, "edit")),
        video.state === "paused"
          ? does("Resume", "resume", () => post(`videos/${video.id}/resume`))
          : does("Pause", "pause", () => post(`videos/${video.id}/pause`)),
        video.state === "held" && does("Release", "release", () => post(`videos/${video.id}/release`)),
        does("Cancel", "cancel", () => post(`videos/${video.id}/cancel`), { class: "vg-button vg-danger" }))));
  }

  end(video) {
    const text = video.error?.message ?? (video.state === "completed" ? `${video.num_frames} frames, ${Math.round(video.usage.gpu_seconds ?? 0)} s of work` : "Stopped by a person; what was made is kept.");
    return h("tr", { "data-job": video.id },
      h("td", {}, this.thumb(video)),
      h("td", { class: "vg-name" }, h("button", { type: "button", class: "vg-link", "data-at": `${video.id}-open`, click: () => follow(video) }, titleOf(video)),
        h("div", { class: "vg-quiet" }, ago(video.completed_at ?? video.updated_at))),
      h("td", {}, badge(video)),
      h("td", { class: "vg-why" }, text),
      h("td", {}, h("div", { class: "vg-row" },
        video.state === "completed"
          ? button("Open", () => go("library", video.id))
          : button(wordOf(video), (event) => act(event.currentTarget, async () => { await goOn(video); this.wake(); })),
        video.kind === "clip" && video.request && button("Change and retry", (event) => act(event.currentTarget, () => toForm(video, "reuse"))))));
  }

  thumb(video) {
    const source = video.variants?.thumbnail ? content(video.id, "thumbnail") : BUSY.includes(video.state) && video.step ? content(video.id, "preview", `&step=${video.step}`) : null;
    return source ? h("img", { class: "vg-thumb", src: source, alt: "", loading: "lazy" }) : h("div", { class: "vg-thumb", "aria-hidden": "true" });
  }

  async all(state, action) {
    const { jobs } = await listed(`&state=${state}`);
    let left = 0;
    for (const id of jobs.keys()) await post(`videos/${id}/${action}`).catch(() => (left += 1));
    if (left) tell(`${left} of ${jobs.size} jobs could not be changed any more.`, true);
    this.wake();
  }
}

customElements.define("vidgen-queue", Queue);
