/* Core: what the form's own handlers call, as window.vidgen. */
import { changed, editing, keep, known, mayReplace, restore } from "./form_draft.js";
import { sure, tell } from "./lib.js";
import { owner, remember, remembered } from "./store.js";

const random = (length) => crypto.getRandomValues(new Uint32Array(length));
let reach = null;
let handed = []; // the form's values when they were handed in last
const UNANSWERED = "unanswered"; // what was handed in to no answer yet, and its key: Gradio loads the page anew when it has lost one
let turn = ""; // of what the form was asked last
let begin = null;
const filled = new Promise((done) => (begin = done));

/** Ask something of the form, which no longer changes the job that it changed. */
async function deliver(message) {
  await filled;
  editing("");
  turn = window.vidgen.key();
  reach({ ...message, turn });
}

let warned = false;
window.addEventListener("vidgen-unkept", () => {
  if (!warned) tell("This browser keeps nothing more, so what you type goes when the page is left; free its storage for this address.", true);
  warned = true;
});

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
  /** The form is filled, and still changes a job or none: what was asked of it meanwhile comes now. */
  filled(edited) {
    editing(edited);
    begin();
  },
  /** Ask something of the form: reuse or edit a job, take a recipe, show fields. Return whether it was done: what is written there may be wanted. */
  async send(message) {
    await filled;
    if (!(await mayReplace(message.fields))) return false;
    await deliver(message);
    return true;
  },
  /** The form says what came of it: the turn if it shows that now, which job it changes, its values. */
  answered(done, edited, values) {
    if (done === turn) known(values);
    editing(edited);
  },
  keep,
  restore,
  /** Empty the form. */
  async afresh() {
    if (!(await sure("Start afresh?", "All that is in the form is taken out of it.", "Empty the form"))) return;
    await deliver({ action: "fields", fields: {}, said: "The form is empty." });
  },
  /** The form is about to be handed in; while no answer has come, the same again is the same click. */
  clicking(values) {
    const text = JSON.stringify(values);
    let last = remembered(UNANSWERED, {});
    if (last.text !== text) remember(UNANSWERED, (last = { text, key: window.vidgen.key() }));
    return window.vidgen.handing(last.key, values);
  },
  /** The form is about to be handed in as it is now; return a word and whose page this is. */
  handing(word, values) {
    handed = values;
    return `${word}/${owner}`;
  },
  /** The same of a waiting job: also with the names of what is changed, so that nothing else is. */
  saving(edited, values) {
    return `${window.vidgen.handing(edited, values)}/${changed(values).join(",")}`;
  },
  /** The waiting job was changed to what was handed in. */
  saved(id) {
    if (id) known(handed);
  },
  /** The form has handed in a job: show it; a seed that was for one clip is spent. */
  made(id) {
    remember(UNANSWERED, {});
    if (!id) return;
    known(handed);
    window.vidgen.follow(id);
    document.querySelector("vidgen-seed")?.used();
  },
  /** Show a job in the live card. */
  follow(id) {
    if (id) document.querySelector("vidgen-live").follow(id);
  },
};
