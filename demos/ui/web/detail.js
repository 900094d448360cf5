/* Detail: one job in full, beside the library: player, actions, recipe, adjustments, lineage. */
import { ENDED, act, api, bytes, button, content, copy, h, poll, post, stateOf, sure, titleOf } from "./lib.js";
import { remember, remembered } from "./store.js";
import { actionsOf, chipsOf } from "./actions.js";
import { flat, text } from "./differ.js";
import { go } from "./routing.js";
import "./player.js";

const MOST = 60; // jobs of which something typed is kept

export class Detail extends HTMLElement {
  constructor(changed) {
    super();
    this.changed = changed;
    this.hidden = true;
  }

  connectedCallback() {
    poll(this, () => this.look());
  }

  /** While the job that is shown goes on, say how far it is; when it has ended, show it. */
  async look() {
    const { video } = this;
    if (this.hidden || !video || ENDED.includes(video.state)) return 1500;
    const found = await api(`videos/${encodeURIComponent(video.id)}`);
    if (video !== this.video) return 0;
    if (ENDED.includes(found.state)) this.draw(found);
    else this.querySelector(".vg-state").textContent = stateOf(found);
    return 1500;
  }

  async open(id) {
    this.video = null;
    this.asked = id;
    this.hidden = !id;
    if (!id) return;
    const found = await act(null, () => api(`videos/${encodeURIComponent(id)}`));
    if (id !== this.asked) return; // another one was opened meanwhile
    if (found) this.draw(found);
    else this.hidden = true;
  }

  draw(video) {
    const shown = this.video?.id === video.id ? this.querySelector("vidgen-player") : null;
    this.video = video;
    this.setAttribute("data-job", video.id);
    this.replaceChildren(
      h("aside", { class: "vg-card vg-detail", "aria-label": "About this clip" },
        h("div", { class: "vg-row vg-between" }, h("h2", {}, titleOf(video)),
          button("Close", () => go("library"))),
        this.stage(video, shown), chipsOf(video), ENDED.includes(video.state) ? actionsOf(video, this.changed) : following(video), this.keeping(video),
        section("What was asked", recipe(video)), this.lineage(video), files(video)),
    );
    this.family(video);
  }

  stage(video, shown) {
    if (!ENDED.includes(video.state)) return h("p", { class: "vg-state", "aria-live": "polite" }, stateOf(video));
    if (video.state !== "completed" || !video.variants.video) {
      return h("p", { class: "vg-problem" }, video.error?.message ?? "There is no video of it.");
    }
    const player = shown ?? h("vidgen-player");
    player.show(video);
    return h("div", { class: "vg-stage" }, player);
  }

  keeping(video) {
    const does = (text, work, more) => button(text, (event) => act(event.currentTarget, async () => this.changed(await work())), more);
    const said = (data) => () => post(`videos/${video.id}/annotate`, data());
    const saved = { title: video.title ?? "", tags: video.tags.join(", ") };
    const typed = writtenOf(video.id) ?? saved;
    const unsaved = h("p", { class: "vg-quiet" }, "Not kept yet. ", button("Discard what is typed", () => put(saved, true)));
    const title = h("input", { type: "text", id: "detail-title", value: typed.title, maxlength: "512", input: () => keep() });
    const tags = h("input", { type: "text", id: "detail-tags", value: typed.tags, input: () => keep() });
    const keep = () => put({ title: title.value, tags: tags.value });
    const put = (texts, back = false) => {
      if (back) [title.value, tags.value] = [texts.title, texts.tags];
      unsaved.hidden = texts.title === saved.title && texts.tags === saved.tags;
      write(video.id, unsaved.hidden ? null : texts);
    };
    const save = async () => {
      const texts = { title: title.value, tags: tags.value };
      const words = texts.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
      const kept = await post(`videos/${video.id}/annotate`, { title: texts.title.trim(), tags: words });
      if (title.value === texts.title && tags.value === texts.tags) write(video.id, null); // else it was typed on meanwhile
      return kept;
    };
    unsaved.hidden = typed.title === saved.title && typed.tags === saved.tags;
    const link = () => copy(`${location.origin}/ui/#library/${video.id}`, "The link is copied.");
    return h("div", { class: "vg-keeping" },
      h("label", { for: "detail-title" }, "Title"), title,
      h("label", { for: "detail-tags" }, "Tags, with commas"), tags, unsaved,
      h("div", { class: "vg-row" },
        does("Save", save),
        does(video.starred ? "Unstar" : "Star", said(() => ({ starred: !video.starred }))),
        button("Copy link", link),
        video.trashed_at
          ? [does("Restore", () => post(`videos/${video.id}/restore`), { class: "vg-button vg-main" }),
             button("Delete for good", (event) => act(event.currentTarget, () => this.end(video)), { class: "vg-button vg-danger" })]
          : does("Move to trash", () => post(`videos/${video.id}/trash`), { class: "vg-button vg-danger" })));
  }

  async end(video) {
    if (!(await sure("Delete for good?", `It cannot be had back: “${titleOf(video).slice(0, 80)}”.`, "Delete it"))) return;
    this.changed(await api(`videos/${video.id}`, { method: "DELETE" }));
  }

  lineage(video) {
    this.children_ = h("span", {});
    const parent = video.lineage.parent;
    return section("Where it comes from", h("p", {},
      parent ? [`${video.lineage.kind} of `, h("a", { href: `#library/${parent}` }, parent)] : "Made from nothing but its request.",
      this.children_));
  }

  async family(video) {
    const { data } = await api(`videos?parent=${video.id}&limit=20`).catch(() => ({ data: [] }));
    if (this.video?.id !== video.id || !data.length) return;
    this.children_.replaceChildren(h("br"), "Made of it: ",
      ...data.flatMap((child, k) => [k ? ", " : "", h("a", { href: `#library/${child.id}` }, `${child.lineage.kind} ${child.id.slice(-6)}`)]));
  }
}

/** Return the way to a job that goes on: it is stopped, paused and watched there. */
function following(video) {
  const show = () => { window.vidgen.follow(video.id); go("create"); };
  return h("div", { class: "vg-row" }, button("Show where it is made", show, { class: "vg-button vg-main" }));
}

/** Return what was typed for a job and not saved yet. */
const writtenOf = (id) => remembered("detail.written", []).find((item) => item.id === id)?.texts;

function write(id, texts) {
  const others = remembered("detail.written", []).filter((item) => item.id !== id).slice(-MOST);
  remember("detail.written", [...others, ...(texts ? [{ id, texts }] : [])]);
}

const section = (title, ...inside) => h("section", {}, h("h3", {}, title), ...inside);

function recipe(video) {
  if (!video.request) return h("p", { class: "vg-quiet" }, "Nothing is kept of it.");
  const rows = Object.entries(flat(video)).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, text(value))));
  const notes = [...video.adjustments.map((item) => `${item.field}: ${text(item.asked)} → ${text(item.used)}: ${item.why}`), ...video.warnings];
  return [h("table", { class: "vg-facts" }, h("tbody", {}, rows)),
    notes.length ? h("ul", { class: "vg-notes" }, notes.map((note) => h("li", { class: "vg-adjusted" }, note))) : null];
}

function files(video) {
  const rows = Object.entries(video.variants).map(([name, file]) =>
    h("li", {}, h("a", { href: content(video.id, name), download: "" }, name), ` ${bytes(file.bytes)}`));
  return rows.length ? section("Files", h("ul", { class: "vg-files" }, rows)) : null;
}

customElements.define("vidgen-detail", Detail);
