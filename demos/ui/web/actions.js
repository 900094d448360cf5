/* Actions: what can be done with a job that has ended, the same everywhere it is shown. */
import { act, api, ask, button, content, copy, h, post, tell } from "./lib.js";
import { remember, remembered } from "./store.js";
import { go } from "./routing.js";
import { draft, keepDraft } from "./story_draft.js";

/** Ask for something new of a job's request: other fields over it. */
export function again(video, fields) {
  const request = { ...video.request, ...fields };
  for (const name of Object.keys(request)) if (request[name] === null) delete request[name];
  return post("videos", request);
}

const resumes = (video) => /\bresume it\b/.test(video.error?.message ?? "");

/** Return what the button is called that has a job which ended go on: as what it says of itself calls it. */
export const wordOf = (video) => (resumes(video) ? "Resume" : "Retry");

export const goOn = (video) => post(`videos/${video.id}/${resumes(video) ? "resume" : "retry"}`);

export function follow(video) {
  go("create");
  window.vidgen.follow(video.id);
}

/** Make a job's clip twice at its seed, with dense and with top-k attention, and compare them. */
export async function denseAgainstTopK(video) {
  const made = [];
  for (const attention of ["dense", "topk"]) {
    made.push(await again(video, { attention, seed: video.seed }));
  }
  go("compare", made.map((job) => job.id).join(","));
}

async function extend(video) {
  const made = await ask(
    "Extend this video",
    [
      { name: "prompt", label: "What follows", value: video.prompt?.split("\n").at(-1) ?? "", rows: 3 },
      { name: "seconds", label: "Seconds to add", value: "1", type: "number" },
    ],
    "Extend",
    "",
    (told) => post("videos/extensions", { video: video.id, ...told }),
  );
  if (made) follow(made);
}

function compareWith(video) {
  const chosen = remembered("compare", []).filter((id) => id !== video.id);
  chosen.push(video.id);
  remember("compare", chosen.slice(-4));
  if (chosen.length > 1) go("compare", chosen.slice(-4).join(","));
  else tell("Chosen. Now press Compare with on another clip.");
}

/** Return the shots that a job was made of, each with its own length; a single clip is one. */
function shotsOf(video) {
  const { shots } = video.request;
  if (!shots) return [{ prompt: video.prompt ?? "", seconds: Number(video.request.seconds ?? video.seconds) || 1, seed: null }];
  return shots.map(({ prompt, seconds, transition = null, seed = null }) => ({ prompt, seconds, transition, seed }));
}

function toStoryboard(video) {
  const shots = draft().filter((shot) => shot.prompt);
  shots.push(...shotsOf(video));
  keepDraft(shots);
  remember("board.open", null);
  go("storyboard");
}

/** Return the buttons for a job; `changed` is called with the job after one of them changed it. */
export function actionsOf(video, changed = () => {}) {
  const clip = video.kind === "clip" && video.request;
  const does = (text, work, more) => button(text, (event) => act(event.currentTarget, () => work(video)), more);
  if (video.state !== "completed") {
    return h(
      "div",
      { class: "vg-row" },
      does(wordOf(video), async () => changed(await goOn(video)), { class: "vg-button vg-main" }),
      clip && does("Reuse settings", reuse),
      does("Delete", async () => changed(await api(`videos/${video.id}`, { method: "DELETE" }))),
    );
  }
  return h(
    "div",
    { class: "vg-row" },
    clip && does("Reuse settings", reuse),
    clip && does("Vary seed", async () => follow(await again(video, { seed: null }))),
    does("Extend…", extend),
    does("Compare with…", compareWith),
    clip && does("Dense against top-k", denseAgainstTopK),
    video.request && does("To storyboard", toStoryboard),
    downloads(video),
  );
}

/** Show a job's settings in the form, or change it there while it waits. */
export async function toForm(video, action) {
  if (await window.vidgen.send({ action, video: video.id })) go("create");
}

const reuse = (video) => toForm(video, "reuse");

function downloads(video) {
  const names = Object.keys(video.variants).filter((name) => !name.startsWith("clip-"));
  return h(
    "details",
    { class: "vg-menu" },
    h("summary", { class: "vg-button" }, "Download"),
    h(
      "ul",
      {},
      names.map((name) =>
        h("li", {}, h("a", { href: content(video.id, name), download: "" }, name.replace("_", " "))),
      ),
    ),
  );
}

/** Return chips of what was decided: seed, size, and every adjustment. */
export function chipsOf(video) {
  return h(
    "ul",
    { class: "vg-chips" },
    h("li", {}, h("button", { type: "button", class: "vg-chip", click: () => copy(String(video.seed), `Seed ${video.seed} is copied.`), title: "Copy" }, `seed ${video.seed}`)),
    h("li", { class: "vg-chip" }, `${video.size.replace("x", "×")}`),
    h("li", { class: "vg-chip" }, `${video.num_frames} frames, ${video.fps} fps`),
    video.request?.attention && h("li", { class: "vg-chip" }, video.request.attention),
    video.usage?.gpu_seconds && h("li", { class: "vg-chip" }, `made in ${Math.round(video.usage.gpu_seconds)} s`),
    video.adjustments.map((item) =>
      h(
        "li",
        { class: "vg-chip vg-adjusted", title: String(item.why) },
        `${item.field}: ${item.asked} → ${item.used}`,
        h("span", { class: "vg-hidden" }, ` because ${item.why}`),
      ),
    ),
  );
}
