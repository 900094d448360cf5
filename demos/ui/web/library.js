/* Library: everything that was made, to be found again. */
import { BUSY, ENDED, act, api, ago, badge, button, content, h, poll, post, titleOf } from "./lib.js";
import { Detail } from "./detail.js";
import { go, onPage } from "./routing.js";

const PAGE = 24;
const KINDS = [["", "Finished"], ["open", "Not finished"], ["trash", "Trash"]];
const UNFINISHED = ["queued", "held", "interrupted", "paused", ...BUSY, ...ENDED.filter((state) => state !== "completed")];

/** Return the first jobs that a query finds, so many at least where there are, and whether there are more. */
async function first(asked, count) {
  const jobs = [];
  for (;;) {
    const page = await following(asked, jobs.at(-1));
    if (!page) return first(asked, count); // the job to go on after was deleted
    jobs.push(...page.data);
    if (!page.has_more || jobs.length >= count) return { data: jobs, has_more: page.has_more };
  }
}

/** Return the page after a job, null where that job is gone. */
function following(asked, last) {
  return api(`videos?${asked}${last ? `&after=${last.id}` : ""}`).catch((error) => {
    if (last && error.status === 404) return null;
    throw error;
  });
}

class Library extends HTMLElement {
  connectedCallback() {
    this.items = [];
    this.more = false;
    this.turn = 0;
    this.answered = 0;
    this.grid = h("ul", { class: "vg-library" });
    this.empty = h("p", { class: "vg-card vg-quiet", hidden: true }, "Nothing here. Make a clip, or loosen the filters.");
    this.next = button("Show more", (event) => act(event.currentTarget, () => this.further()), { hidden: true });
    this.panel = new Detail((video) => this.changed(video));
    this.replaceChildren(
      h("div", { class: "vg-bar" }, h("h1", {}, "Library"), this.filters()),
      h("div", { class: "vg-split" }, h("div", {}, this.grid, this.empty, this.next), this.panel),
    );
    this.refresh = poll(this, async () => {
      await this.fresh();
      return 4000;
    });
    onPage("library", (id) => this.panel.open(id || null));
  }

  filters() {
    const later = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => act(null, () => this.load(PAGE)), 250);
    };
    const field = (label, input) => h("label", {}, h("span", { class: "vg-hidden" }, label), input);
    this.text = h("input", { type: "search", placeholder: "Search prompts", "aria-label": "Search prompts", input: later });
    this.kind = h("select", { change: later }, KINDS.map(([value, text]) => h("option", { value }, text)));
    this.star = h("input", { type: "checkbox", change: later });
    this.tag = h("input", { type: "text", placeholder: "Tag", size: 8, input: later });
    this.seed = h("input", { type: "text", inputmode: "numeric", placeholder: "Seed", size: 8, input: later });
    this.model = h("input", { type: "text", placeholder: "Model", size: 12, input: later });
    this.since = h("input", { type: "date", change: later });
    return h("form", { class: "vg-row vg-filters", role: "search", submit: (event) => event.preventDefault() },
      field("Search prompts", this.text), field("Show", this.kind),
      h("label", { class: "vg-check" }, this.star, "Starred"),
      field("Tag", this.tag), field("Seed", this.seed), field("Model", this.model), field("Made since", this.since));
  }

  query() {
    const asked = new URLSearchParams({ limit: String(PAGE) });
    const put = (name, value) => value && asked.append(name, value);
    put("text", this.text.value.trim());
    put("tag", this.tag.value.trim());
    put("model", this.model.value.trim());
    put("seed", this.seed.value.trim());
    put("since", this.since.value && String(new Date(this.since.value) / 1000));
    put("starred", this.star.checked && "true");
    if (this.kind.value === "trash") put("trashed", "true");
    else (this.kind.value === "open" ? UNFINISHED : ["completed"]).forEach((state) => put("state", state));
    return asked;
  }

  /** Show so many of the list, from its beginning. */
  load(count) {
    const asked = this.query();
    return this.take(() => first(asked, count));
  }

  /** Show what follows the last one; where that is gone, the list from its beginning. */
  further() {
    const asked = this.query();
    const { items } = this;
    return this.take(async () => {
      const page = await following(asked, items.at(-1));
      return page ? { ...page, data: [...items, ...page.data] } : first(asked, items.length + PAGE);
    });
  }

  async take(look) {
    const turn = (this.turn += 1);
    try {
      const found = await look();
      if (turn !== this.turn) return; // something else is asked for by now
      this.items = found.data;
      this.more = found.has_more;
      this.draw();
    } finally {
      this.answered = Math.max(this.answered, turn);
    }
  }

  /** Look for new ones while the reader is at the top of the list. */
  async fresh() {
    const asks = this.answered < this.turn;
    if (asks || this.items.length > PAGE || this.grid.contains(document.activeElement)) return;
    await this.load(PAGE);
  }

  draw() {
    const form = JSON.stringify(this.items.map(formOf));
    if (form !== this.form) {
      this.form = form;
      const held = this.grid.contains(document.activeElement) ? document.activeElement : null;
      this.grid.replaceChildren(...this.items.map((video) => this.cardOf(video)));
      if (held?.isConnected) held.focus({ preventScroll: true }); // it was taken out and put back
    }
    this.empty.hidden = this.items.length > 0;
    this.next.hidden = !this.more;
  }

  /** Return a job's card: the one that is there where nothing about it has changed. */
  cardOf(video) {
    const form = JSON.stringify(formOf(video));
    const there = [...this.grid.children].find((card) => card.dataset.job === video.id);
    if (there?.form === form) return there;
    return Object.assign(this.card(video), { form });
  }

  async toggleStar(video, pressed) {
    const held = document.activeElement === pressed;
    await act(pressed, async () => this.changed(await post(`videos/${video.id}/annotate`, { starred: !video.starred })));
    const nowhere = !document.activeElement || document.activeElement === document.body;
    if (held && nowhere) this.grid.querySelector(`[data-job="${video.id}"] .vg-star`)?.focus({ preventScroll: true });
  }

  card(video) {
    const frame = h("div", { class: "vg-frame-box" }, picture(video));
    const star = button(video.starred ? "★" : "☆", (event) => this.toggleStar(video, event.currentTarget),
      { class: "vg-star", "aria-pressed": String(video.starred), "aria-label": `Star: ${titleOf(video).slice(0, 60)}` });
    const made = h("li", { class: "vg-item", "data-job": video.id },
      h("button", { type: "button", class: "vg-open", click: () => go("library", video.id) }, frame,
        h("span", { class: "vg-name" }, titleOf(video))),
      h("div", { class: "vg-meta" }, star, video.state === "completed" ? h("span", {}, `${Number(video.seconds).toFixed(1)} s`) : badge(video),
        h("span", {}, ago(video.created_at)), video.tags.map((tag) => h("span", { class: "vg-tag" }, tag))));
    hover(made, frame, video);
    return made;
  }

  changed(video) {
    const at = this.items.findIndex((item) => item.id === video.id);
    if (at >= 0 && !video.deleted) this.items[at] = video;
    if (video.deleted) go("library");
    this.draw();
    act(null, () => this.load(Math.max(PAGE, this.items.length)));
    if (!video.deleted && this.panel.video?.id === video.id) this.panel.draw(video);
  }
}

/** What of a job is seen in its card. */
const formOf = (video) => [video.id, video.state, video.starred, video.title, video.tags, video.trashed_at];

function picture(video) {
  if (!video.variants?.thumbnail) return h("div", { class: "vg-none", "aria-hidden": "true" });
  return h("img", { src: content(video.id, "thumbnail"), alt: "", loading: "lazy" });
}

/** Play a clip in its card while the pointer or the focus is on it. */
function hover(card, frame, video) {
  if (video.state !== "completed" || !video.variants.video) return;
  const start = () => {
    if (frame.querySelector("video")) return;
    const film = h("video", { src: content(video.id), muted: true, loop: true, autoplay: true, playsinline: true, "aria-hidden": "true" });
    frame.append(film);
  };
  const stop = () => frame.querySelector("video")?.remove();
  card.addEventListener("pointerenter", start);
  card.addEventListener("pointerleave", stop);
  card.addEventListener("focusin", start);
  card.addEventListener("focusout", stop);
}

customElements.define("vidgen-library", Library);
