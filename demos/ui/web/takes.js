/* Takes: what was made of a card before, and of which take each later one came. */
import { api, button, h } from "./lib.js";

const MOST = 60;

/** Return the jobs of a storyboard and all that were re-rolled of it or of what it came of, the oldest first. */
export async function familyOf(video) {
  let root = video;
  for (let up = 0; up < MOST && root.lineage.kind === "storyboard" && root.lineage.parent; up++) {
    const parent = await api(`videos/${root.lineage.parent}`).catch(() => null);
    if (!parent?.request) break;
    root = parent;
  }
  const found = [root];
  for (let at = 0; at < found.length && found.length < MOST; at++) {
    const { data } = await api(`videos?parent=${found[at].id}&order=asc&limit=50`);
    found.push(...data.filter((child) => child.lineage.kind === "storyboard"));
  }
  return found.sort((a, b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1));
}

/** Two jobs share a card's take when nothing up to the end of the card differs. */
function keyOf(video, card) {
  const { shots, end_image: _, ...rest } = video.request;
  return JSON.stringify([rest, shots.slice(0, card + 1)]);
}

/** Return the take that a card of a storyboard shows: its own, or for a stale card the one that was there. */
export function takeOf(family, takes, card) {
  const jobs = new Map(family.map((video) => [video.id, video]));
  for (let up = jobs.get(card.video); up; up = jobs.get(up.lineage.parent)) {
    const take = up.request?.shots?.[card.index] && takes.find((other) => other.key === keyOf(up, card.index));
    if (take) return take;
    if (card.state !== "stale") break;
  }
  return null;
}

/** Return the takes of a card: { key, video, clips, shot, seed, of }: the shot's own seed, and the take it came of. */
export function takesOf(family, card) {
  const jobs = new Map(family.map((video) => [video.id, video]));
  const takes = new Map();
  for (const video of family) {
    const shot = video.request?.shots?.[card];
    const clips = video.clip_plan.filter((clip) => clip.shot === card);
    const made = shot && clips.length && clips.every((clip) => clip.index < video.clips_completed);
    if (!made || takes.has(keyOf(video, card))) continue;
    takes.set(keyOf(video, card), {
      key: keyOf(video, card),
      number: takes.size + 1,
      video: video.id,
      clips: [...clips].sort((a, b) => a.place - b.place).map((clip) => clip.index),
      shot,
      seed: shot.seed ?? null,
      of: cameOf(video, card, jobs, takes),
    });
  }
  return [...takes.values()];
}

function cameOf(video, card, jobs, takes) {
  for (let up = jobs.get(video.lineage.parent); up; up = jobs.get(up.lineage.parent)) {
    const take = up.request?.shots?.[card] && takes.get(keyOf(up, card));
    if (take) return take;
  }
  return null;
}

/** Return the tree of a card's takes; `look` is called with the one that is pressed. */
export function takeTree(takes, current, look) {
  const row = (take) => h("li", {},
    button(`Take ${take.number}`, (event) => {
      for (const other of event.target.closest(".vg-takes").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === event.target));
      look(take);
    }, { class: "vg-chip", "aria-pressed": String(take === current), "data-take": String(take.number) }),
    h("span", { class: "vg-quiet" }, ` ${take.seed === null ? "seed of the story" : `seed ${take.seed}`}${take === current ? ", this storyboard’s" : ""}`, words(take)),
    branch(takes.filter((other) => other.of === take)));
  const branch = (some) => (some.length ? h("ul", {}, some.map(row)) : null);
  return h("details", { class: "vg-takes" }, h("summary", {}, `Take ${current.number} of ${takes.length}`), branch(takes.filter((take) => !take.of)));
}

/** Say what a take was asked for where the one that it came of was asked for something else. */
function words({ shot, of }) {
  return of && of.shot.prompt !== shot.prompt ? h("i", {}, ` “${shot.prompt.slice(0, 80)}”`) : null;
}
