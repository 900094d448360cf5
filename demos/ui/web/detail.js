/* Detail: one job in full, beside the library: player, actions, recipe, adjustments, lineage. */
import { act, api, bytes, button, content, copy, h, post, titleOf } from "./lib.js";
import { actionsOf, chipsOf } from "./actions.js";
import { flat, text } from "./differ.js";
import { go } from "./routing.js";
import "./player.js";

export class Detail extends HTMLElement {
  constructor(changed) {
    super();
    this.changed = changed;
    this.hidden = true;
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
        this.stage(video, shown), chipsOf(video), actionsOf(video, this.changed), this.keeping(video),
        section("What was asked", recipe(video)), this.lineage(video), files(video)),
    );
    this.family(video);
  }

  stage(video, shown) {
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
    const title = h("input", { type: "text", id: "detail-title", value: video.title ?? "", maxlength: "512" });
    const tags = h("input", { type: "text", id: "detail-tags", value: video.tags.join(", ") });
    const link = () => copy(`${location.origin}/ui/#library/${video.id}`, "The link is copied.");
    return h("div", { class: "vg-keeping" },
      h("label", { for: "detail-title" }, "Title"), title,
      h("label", { for: "detail-tags" }, "Tags, with commas"), tags,
      h("div", { class: "vg-row" },
        does("Save", said(() => ({ title: title.value.trim(), tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) }))),
        does(video.starred ? "Unstar" : "Star", said(() => ({ starred: !video.starred }))),
        button("Copy link", link),
        video.trashed_at
          ? [does("Restore", () => post(`videos/${video.id}/restore`), { class: "vg-button vg-main" }),
             does("Delete for good", () => api(`videos/${video.id}`, { method: "DELETE" }), { class: "vg-button vg-danger" })]
          : does("Move to trash", () => post(`videos/${video.id}/trash`), { class: "vg-button vg-danger" })));
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
