/* Core: what the form's own handlers call, as window.vidgen. */
import { keep, restore } from "./form_draft.js";
import { sure } from "./lib.js";

const random = (length) => crypto.getRandomValues(new Uint32Array(length));
const waiting = [];
let reach = null;
let trigger = null;

window.vidgen = {
  /** A new idempotency key: one click, one job. */
  key: () => [...random(4)].map((part) => part.toString(16).padStart(8, "0")).join(""),
  /** A new seed, as the text of the seed's field. */
  seed: () => String(random(1)[0] >>> 1),
  /** The form says how it is reached, and how it is filled with what was kept; that comes first. */
  connect(send, refill) {
    reach = send;
    refill();
  },
  /** The form is filled: what was asked of it meanwhile comes now. */
  filled() {
    trigger = reach;
    waiting.splice(0).forEach(trigger);
  },
  /** Ask something of the form: reuse or edit a job, take a recipe, show fields. */
  send(message) {
    if (trigger) trigger(message);
    else waiting.push(message);
  },
  keep,
  restore,
  /** Empty the form. */
  async afresh() {
    if (!(await sure("Start afresh?", "All that is in the form is taken out of it.", "Empty the form"))) return;
    window.vidgen.send({ action: "fields", fields: {}, said: "The form is empty." });
  },
  /** The form has handed in a job: show it; a seed that was for one clip is spent. */
  made(id) {
    if (!id) return;
    window.vidgen.follow(id);
    document.querySelector("vidgen-seed")?.used();
  },
  /** Show a job in the live card. */
  follow(id) {
    if (id) document.querySelector("vidgen-live").follow(id);
  },
};
