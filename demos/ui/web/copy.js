/* Copy: the storyboard as a command line, as curl and as Python, made by the studio when it is looked at. */
import { h, make } from "./lib.js";

/** Return a fold with the ways to ask for a story elsewhere; `story` returns it as it is now. */
export function copyAs(story) {
  const inside = h("div");
  let turn = 0;
  const put = (mine, ...parts) => mine === turn && inside.replaceChildren(...parts);
  const show = async () => {
    if (!fold.open) return;
    const mine = (turn += 1);
    try {
      const asked = story();
      const { snippets } = await (await make("snippets", { story: asked })).json();
      put(mine, ...snippets.map(([name, text]) => snippet(name, text)),
        asked.seed === undefined ? h("p", { class: "vg-quiet" }, "No seed is set: each run draws its own.") : "");
    } catch (error) {
      put(mine, h("p", { class: "vg-quiet" }, error.message));
    }
  };
  const fold = h("details", { class: "vg-card vg-copy", toggle: show }, h("summary", {}, "Copy as CLI / curl / Python"), inside);
  fold.refresh = show;
  return fold;
}

const snippet = (name, text) => h("figure", { class: "vg-code" },
  h("figcaption", {}, name, h("button", { type: "button", class: "vg-button", "data-vg-copy": name }, "Copy")),
  h("pre", { tabindex: "0", "aria-label": name }, h("code", {}, text)));
