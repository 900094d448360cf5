/* Form draft: what is typed in the form, kept in this browser and put back when the page is loaded again. */
import { form } from "./told.js";
import { remember, remembered } from "./store.js";

const NAMES = Object.keys(form.defaults);
const DRAFT = "form";
let awaited = true; // an empty form is not yet what somebody wants kept: it may be about to be filled

/** Return the fields that differ from their defaults. */
const differing = (fields) => Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== form.defaults[name]));

/** The form says what is in it. */
export function keep(values) {
  const held = differing(Object.fromEntries(NAMES.map((name, k) => [name, values[k]])));
  if (Object.keys(held).length) awaited = false;
  if (!awaited) remember(DRAFT, held);
}

/** Return a note and the form's values: what was kept, unless something is in it already. */
export function restore(note, values) {
  const kept = differing(Object.fromEntries(Object.entries(remembered(DRAFT, {})).filter(fits)));
  if (!Object.keys(kept).length || NAMES.some((name, k) => values[k] !== form.defaults[name])) {
    awaited = false;
    return ["", ...values];
  }
  return [note, ...NAMES.map((name) => kept[name] ?? form.defaults[name])];
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
  remember(DRAFT, differing({ ...form.defaults, ...remembered(DRAFT, {}), ...Object.fromEntries(seen) }));
}

/** Return the value of a field that can be seen, undefined where it is folded away. */
function shown(name) {
  const input = document.querySelector(`#field-${name} :is(textarea, input:not([type="radio"]), input:checked)`);
  if (!input || input.type === "checkbox") return input?.checked;
  return form.words[name] ? form.words[name][input.value] : input.value;
}

for (const event of ["input", "change"]) document.addEventListener(event, look);
window.addEventListener("pagehide", look);
