/* Starters: ways to begin; each fills the form or the storyboard, and any clip of ours does too. */
import { act, h, upload } from "./lib.js";
import { replaceDraft } from "./story_draft.js";
import { go } from "./routing.js";
import { zone } from "./drop.js";

const STORY = [
  { prompt: "a big red ball moves slowly left over the sand", seconds: 1 },
  { prompt: "a big red ball moves slowly right over the sand", seconds: 1 },
  { prompt: "a big red ball moves slowly up over the sand", seconds: 1 },
  { prompt: "a big red ball moves slowly down over the sand", seconds: 1 },
];

async function fromImage() {
  const data = await (await fetch("/ui/web/start.png")).blob();
  const made = await upload(new File([data], "start.png", { type: "image/png" }));
  return fill({ prompt: "a big red ball moves slowly right over the sand", image: `upload:${made.id}`, seed: 7 },
    "A picture is its first frame. Press Generate.");
}

async function fill(fields, said) {
  if (!(await window.vidgen.send({ action: "fields", fields, said }))) return;
  document.querySelector("#generate")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

const CARDS = [
  ["From a text", "One clip of the toy world, a few seconds of computing.", () =>
    fill({ prompt: "a big red ball moves quickly left over the sand", seed: 7, num_inference_steps: 12 },
      "Press Generate.")],
  ["From a picture", "The clip begins with a picture that you can change.", fromImage],
  ["A story of four shots", "Four shots on the storyboard, with its drift measured.", async () => {
    if (await replaceDraft(STORY)) go("storyboard");
  }],
];

class Starters extends HTMLElement {
  connectedCallback() {
    const { made, input } = zone("Drop a Vidgen clip here to take its settings, or press", "video/*,image/*",
      (file) => act(made, async () => {
        const sent = await upload(file);
        await window.vidgen.send({ action: "recipe", upload: sent.id, name: file.name });
      }));
    made.id = "recipe-drop";
    this.replaceChildren(
      h("section", { class: "vg-starters", "aria-label": "Start from" },
        h("h2", {}, "Start from"),
        h("div", { class: "vg-tiles" }, CARDS.map(([title, text, start]) =>
          h("button", { type: "button", class: "vg-tile", click: (event) => act(event.currentTarget, start) },
            h("b", {}, title), h("span", {}, text)))),
        made, input),
    );
  }
}

customElements.define("vidgen-starters", Starters);
