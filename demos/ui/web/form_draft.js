/* Form draft: what is typed in the form, kept in this browser, put back when the page is loaded again, and replaced only when that is said. */
import { counted, sure } from "./lib.js";
import { form } from "./told.js";
import { remember, remembered } from "./store.js";

const NAMES = Object.keys(form.defaults);
const DRAFT = "form";
let awaited = true; // an empty form is not yet what somebody wants kept: it may be about to be filled
// What this page has kept, or was filled with: what is in the form, what of it is to be had elsewhere too
// (a job was made of it, or a button put it there), and the job that it is to change.
let held = { fields: {}, known: {}, edited: "" };

const short = (text) => [...text].slice(0, 80).join("");

/** Return the fields that differ from their defaults, in their order. */
const differing = (fields) =>
  Object.fromEntries(NAMES.filter((name) => fields[name] !== form.defaults[name]).map((name) => [name, fields[name]]));

const named = (values) => Object.fromEntries(NAMES.map((name, k) => [name, values[k]]));

/** Keep what is new, but nothing again: another page may have kept something since. */
function hold(parts) {
  const now = { ...held, ...parts };
  if (JSON.stringify(now) === JSON.stringify(held)) return;
  held = now;
  remember(DRAFT, held);
}

/** The form says what is in it. */
export function keep(values) {
  const fields = differing(named(values));
  if (Object.keys(fields).length) awaited = false;
  if (!awaited) hold({ fields });
}

/** Say that these values of the form are to be had elsewhere too. */
export const known = (values) => hold({ known: differing(named(values)) });

/** Return the names of the fields that differ from what is known of the form. */
export function changed(values) {
  const now = named(values);
  return NAMES.filter((name) => now[name] !== (held.known[name] ?? form.defaults[name]));
}

/** Say which job the form is to change; empty: none. */
export const editing = (edited) => hold({ edited });

/** Ask whether what is written here and nowhere else may go, if anything is and does not come again; return the answer. */
export async function mayReplace(coming = {}) {
  look();
  const { fields, known } = held;
  const lost = (name) => fields[name] !== known[name] && String(fields[name]) !== String(coming[name]);
  const [first, ...more] = Object.keys(fields).filter(lost);
  if (!first) return true;
  const text = String(fields[first]);
  const shown = first === "prompt" ? `“${short(text)}”` : `${first.replaceAll("_", " ")} ${short(text)}`;
  const rest = more.length ? ` and ${counted(more.length, "more setting")}` : "";
  return sure("Replace what is written?", `No clip was made of what is in the form, and it is kept nowhere else: ${shown}${rest}.`, "Replace it");
}

/** Return a note, the job to change and the form's values: what was kept, unless something is in it already; files are only named, by another note. */
export function restore(notes, values) {
  const draft = remembered(DRAFT, {});
  const kept = { ...form.defaults, ...Object.fromEntries(Object.entries(draft.fields ?? {}).filter(fits)) };
  const files = form.files.filter((name) => kept[name] !== form.defaults[name]);
  for (const name of files) kept[name] = form.defaults[name];
  const fields = differing(kept);
  if (!Object.keys(fields).length || Object.keys(differing(named(values))).length) {
    awaited = false;
    return ["", "", ...values];
  }
  held = { fields, known: draft.known ?? {}, edited: String(draft.edited ?? "") };
  return [files.length ? notes.files : notes.whole, held.edited, ...NAMES.map((name) => kept[name])];
}

/** Whether a kept value is one that today's form takes. */
function fits([name, value]) {
  const words = form.words[name];
  return typeof value === typeof form.defaults[name] && (!words || Object.values(words).includes(value));
}

/** Look into the form: where the server is away, it says nothing. */
function look() {
  if (awaited) return;
  const seen = NAMES.map((name) => [name, shown(name)]).filter(([, value]) => value !== undefined);
  hold({ fields: differing({ ...form.defaults, ...held.fields, ...Object.fromEntries(seen) }) });
}

/** Return the value of a field that can be seen, undefined where it is folded away. */
function shown(name) {
  const input = document.querySelector(`#field-${name} :is(textarea, input:not([type="radio"]), input:checked)`);
  if (!input || input.type === "checkbox") return input?.checked;
  return form.words[name] ? form.words[name][input.value] : input.value;
}

for (const event of ["input", "change"]) {
  document.addEventListener(event, ({ target }) => target.closest?.("#create-form") && look());
}
window.addEventListener("pagehide", look); // what was chosen from a list without a word of it
