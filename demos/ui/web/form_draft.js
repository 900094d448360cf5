/* Form draft: what is typed in the form, kept in this browser and put back when the page is loaded again. */
import { form } from "./told.js";
import { remember, remembered } from "./store.js";

const NAMES = Object.keys(form.defaults);
const DRAFT = "form";
let awaited = true; // an empty form is not yet what somebody wants kept: it may be about to be filled
let held = {}; // what this page has kept, or was filled with

/** Return the fields that differ from their defaults, in their order. */
const differing = (fields) =>
  Object.fromEntries(NAMES.filter((name) => fields[name] !== form.defaults[name]).map((name) => [name, fields[name]]));

const named = (values) => Object.fromEntries(NAMES.map((name, k) => [name, values[k]]));

/** Keep fields, but not again: another page may have kept something since. */
function hold(fields) {
  if (JSON.stringify(fields) === JSON.stringify(held)) return;
  held = fields;
  remember(DRAFT, fields);
}

/** The form says what is in it. */
export function keep(values) {
  const fields = differing(named(values));
  if (Object.keys(fields).length) awaited = false;
  if (!awaited) hold(fields);
}

/** Return a note and the form's values: what was kept, unless something is in it already; files are only named, by another note. */
export function restore(notes, values) {
  const kept = { ...form.defaults, ...Object.fromEntries(Object.entries(remembered(DRAFT, {})).filter(fits)) };
  const files = form.files.filter((name) => kept[name] !== form.defaults[name]);
  for (const name of files) kept[name] = form.defaults[name];
  const fields = differing(kept);
  if (!Object.keys(fields).length || Object.keys(differing(named(values))).length) {
    awaited = false;
    return ["", ...values];
  }
  held = fields;
  return [files.length ? notes.files : notes.whole, ...NAMES.map((name) => kept[name])];
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
  hold(differing({ ...form.defaults, ...held, ...Object.fromEntries(seen) }));
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
