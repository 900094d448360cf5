/* Story form: the settings of a story, made from what the server's side declares about it. */
import { h, number } from "./lib.js";

const EVERY_CLIP = [["model", "Model"], ["num_frames", "Frames of a clip"], ["num_inference_steps", "Steps"], ["guidance_scale", "Guidance"], ["size", "Size"]];

/** Return a form for strategy, seed, hand-over, controls and the clips' own fields. */
export function storyForm(schema, settings, changed) {
  const made = (name, part, at) => h("label", { title: part.description ?? "" }, name.replaceAll("_", " "), input(schema, part, at(), (value) => {
    if (value === null) delete at.of()[name];
    else at.of()[name] = value;
    changed();
  }));
  const group = (key, name) => {
    const holder = () => (key ? (settings[key] ??= {}) : settings);
    return Object.assign(() => holder()[name], { of: holder });
  };
  const section = (key) => Object.entries(resolve(schema, schema.properties[key]).properties).map(([name, part]) => made(name, part, group(key, name)));
  return h("details", { class: "vg-card" }, h("summary", {}, "Hand-over, drift controls and the clips' settings"),
    h("div", { class: "vg-settings" },
      made("strategy", schema.properties.strategy, group(null, "strategy")), made("seed", schema.properties.seed, group(null, "seed")),
      EVERY_CLIP.map(([name, title]) => h("label", {}, title, input(schema, { type: "string" }, settings.request?.[name], (value) => {
        settings.request ??= {};
        if (value === null) delete settings.request[name];
        else settings.request[name] = value;
        changed();
      })))),
    h("h3", {}, "Hand-over"), h("div", { class: "vg-settings" }, section("handover")),
    h("h3", {}, "Against drift"), h("div", { class: "vg-settings" }, section("controls")));
}

function resolve(schema, part) {
  const named = part.$ref ?? part.allOf?.[0]?.$ref;
  return named ? { ...schema.$defs[named.split("/").at(-1)], ...part } : part;
}

function input(schema, raw, value, put) {
  const part = resolve(schema, raw);
  const kinds = part.anyOf ?? [part];
  const words = part.enum ?? kinds.find((kind) => kind.enum)?.enum;
  if (words && kinds.length === 1) {
    const own = `default${part.default ? `: ${part.default}` : ""}`;
    return h("select", { change: (event) => put(event.target.value || null) },
      [["", own], ...words.map((word) => [word, word])].map(([word, text]) => h("option", { value: word, selected: word === (value ?? "") }, text)));
  }
  if (part.type === "boolean") {
    return h("select", { change: (event) => put(event.target.value ? event.target.value === "yes" : null) },
      ["", "yes", "no"].map((word) => h("option", { value: word, selected: word === (value === undefined ? "" : value ? "yes" : "no") }, word || `default: ${part.default ? "yes" : "no"}`)));
  }
  return h("input", { type: "text", value: value ?? "", placeholder: part.default === null || part.default === undefined ? "" : `default: ${part.default}`,
    change: (event) => put(number(event.target.value.trim())) });
}
