/* Helpers of all pages: elements, calls of the API, polling, words and figures. */
import { owner } from "./store.js";

export const API = "/ui/api/";
export const ENDED = ["completed", "failed", "cancelled", "expired"];
export const BUSY = ["assigned", "running", "retrying", "cancelling", "finalizing"];
const SECONDS = 20000;

/** Make an element; texts are text, never HTML. An attribute that is a function is a listener. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const button = (text, press, more = {}) =>
  h("button", { type: "button", class: "vg-button", click: press, ...more }, text);

/** What the server said no to, in its own words. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Read JSON, null where it is none; whole numbers that a browser cannot hold, as long seeds, stay texts. */
export function read(text) {
  const part = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  try {
    return JSON.parse(text.replace(part, (found) => (/^-?\d+$/.test(found) && !Number.isSafeInteger(Number(found)) ? `"${found}"` : found)));
  } catch {
    return null;
  }
}

/** Return the number that a text is, null for none; what is none, or too long for a browser, stays the server's to read. */
export function number(text) {
  if (text === "") return null;
  const value = Number(text);
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)) ? text : value;
}

/** Call the API; return its JSON. A click's key makes a repeated call harmless. */
export async function api(path, { method = "GET", data, body, click } = {}) {
  const headers = { "x-vidgen-page-of": owner };
  if (data !== undefined) headers["content-type"] = "application/json";
  if (click) headers["idempotency-key"] = click;
  let answer;
  try {
    answer = await fetch(API + path, {
      method,
      headers,
      body: body ?? (data === undefined ? undefined : JSON.stringify(data)),
      signal: body ? undefined : AbortSignal.timeout(SECONDS),
    });
  } catch {
    throw new Refused("The server does not answer; is it running?", 0);
  }
  if (answer.status === 401) throw new Refused("Sign in first: reload this page.", 401);
  const found = read(await answer.text().catch(() => ""));
  if (answer.ok) return found;
  throw new Refused(found?.error?.message ?? `The server answered ${answer.status}.`, answer.status);
}

/** Have the studio make something of clips; return the answer, which may be a file. */
export async function make(work, data) {
  const answer = await fetch(`/ui/works/${work}`, { method: "POST", headers: { "content-type": "application/json", "x-vidgen-page-of": owner }, body: JSON.stringify(data) })
    .catch(() => { throw new Refused("The studio does not answer; is it running?", 0); });
  if (answer.ok) return answer;
  if (answer.status === 401) throw new Refused("Sign in first: reload this page.", 401);
  const found = await answer.json().catch(() => null);
  throw new Refused(found?.error?.message ?? `The studio answered ${answer.status}.`, answer.status);
}

/** Hand a file of the studio to the reader. */
export async function save(answer, name) {
  const link = h("a", { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

export const post = (path, data = {}) =>
  api(path, { method: "POST", data, click: window.vidgen.key() });

/** Send a file; return the upload. */
export function upload(file) {
  const form = new FormData();
  form.append("file", file, file.name || "file");
  return api("uploads", { method: "POST", body: form });
}

export const content = (id, variant = "video", more = "") =>
  `${API}videos/${encodeURIComponent(id)}/content?variant=${variant}${more}`;

/** Call `look` again and again while the element can be seen; it returns the next wait in ms. */
export function poll(element, look) {
  let timer = 0;
  let running = false;
  let again = false; // asked for while one round was under way
  const round = async () => {
    clearTimeout(timer);
    again = running;
    if (running || !element.isConnected) return;
    running = true;
    let wait = 1000;
    const seen = document.visibilityState === "visible" && element.getClientRects().length > 0;
    try {
      if (seen) wait = (await look()) ?? 2000;
    } catch (error) {
      wait = 2000;
      if (!(error instanceof Refused)) console.error(error);
    }
    running = false;
    timer = setTimeout(round, again ? 0 : wait);
  };
  document.addEventListener("visibilitychange", round);
  window.addEventListener("hashchange", () => setTimeout(round, 0));
  round();
  return round;
}

/** Run what a button does; show a refusal where the reader looks. `meanwhile` is its text for so long. */
export async function act(element, work, meanwhile = null) {
  const text = element?.textContent;
  const held = element && document.activeElement === element;
  if (element) element.disabled = true;
  if (meanwhile) element.textContent = meanwhile;
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    tell(error.message, true);
    return null;
  } finally {
    if (element) element.disabled = false;
    if (held && element.isConnected && document.activeElement === document.body) element.focus();
    if (meanwhile) element.textContent = text;
  }
}

/** Show a sentence for a while; what went wrong stays until it is closed. */
export function tell(text, bad = false) {
  document.querySelector(".vg-toast")?.remove();
  const toast = h("div", { class: `vg-toast${bad ? " vg-bad" : ""}`, role: bad ? "alert" : "status" }, text);
  if (bad) toast.append(button("Close", () => toast.remove()));
  else setTimeout(() => toast.remove(), 4000);
  document.querySelector(".gradio-container").append(toast);
}

/** Put a text into the clipboard and say so; browsers allow it over https and on this machine only. */
export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    tell(said);
  } catch {
    tell("This browser copies only over https or on this machine; select the text instead.", true);
  }
}

/** Return a clip's frames a second, which may be written as a fraction. */
export function rateOf(video) {
  const [up, down = "1"] = video.fps.split("/");
  return Number(up) / Number(down);
}

/** Return how many frames, at the first clip's rate, all clips have. */
export const sharedFrames = (videos) =>
  Math.min(...videos.map((video) => Math.floor((video.num_frames / rateOf(video)) * rateOf(videos[0]) + 1e-6)));

export const counted = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 90) return `${Math.round(value)} s`;
  return value < 5400 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1000 && step < 4) [value, step] = [value / 1024, step + 1];
  return `${value >= 10 || step === 0 ? Math.round(value) : value.toFixed(1)} ${names[step]}`;
}

export function ago(at) {
  const past = Date.now() / 1000 - at;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  return past < 86400 ? `${Math.floor(past / 3600)} h ago` : new Date(at * 1000).toLocaleDateString();
}

const STATES = {
  queued: "Waits",
  held: "Held",
  assigned: "Prepares",
  running: "Runs",
  retrying: "Makes a clip again",
  cancelling: "Stops after this step",
  finalizing: "Writes the files",
  interrupted: "Waits for another worker",
  paused: "Paused",
  completed: "Done",
  failed: "Failed",
  cancelled: "Stopped",
  expired: "Expired",
};
const PHASES = { encode: "Reads the prompt", condition: "Reads the inputs", denoise: "Denoises", decode: "Decodes" };

/** Say in words where a job is. */
export function stateOf(video) {
  const parts = [STATES[video.state] ?? video.state];
  if (video.state === "held" && video.hold_reason) parts.push(video.hold_reason);
  if (video.state === "queued" && video.queue_position) parts.push(`place ${video.queue_position}`);
  if (BUSY.includes(video.state) && video.phase) parts[0] = PHASES[video.phase] ?? parts[0];
  if (BUSY.includes(video.state) && video.step && video.steps) parts.push(`step ${video.step} of ${video.steps}`);
  if (video.clips > 1) parts.push(`${video.clips_completed} of ${video.clips} clips`);
  return parts.join(" · ");
}

export const badge = (video) =>
  h("span", { class: `vg-badge vg-${video.state}` }, STATES[video.state] ?? video.state);

/** Return what a job is called: its title, or its first shot and how many follow; lines of a single clip are no shots. */
export function titleOf(video) {
  const words = video.prompt ?? video.id;
  const [first, ...shots] = video.kind === "clip" ? [words.replaceAll("\n", " ")] : words.split("\n");
  return video.title || (shots.length ? `${first} + ${counted(shots.length, "more shot")}` : first);
}

/** Ask whether to do what cannot be undone; return the answer. */
export const sure = async (title, text, go) => (await ask(title, [], go, text)) !== null;

/** Ask for some texts in a dialog; return them by name, null when it is closed.
 * `submit` does something with them: its answer is returned then, and while it refuses the dialog stays and says why. */
export function ask(title, fields, go = "OK", text = "", submit = (told) => told) {
  return new Promise((resolve) => {
    const inputs = fields.map(({ name, label, value = "", type = "text", rows }) => [
      name,
      rows
        ? h("textarea", { id: `ask-${name}`, rows: String(rows) }, String(value))
        : h("input", { id: `ask-${name}`, type, step: type === "number" && "any", value: String(value) }),
      label,
    ]);
    let found = null;
    let sent = null;
    const refused = h("p", { class: "vg-problem", role: "alert", hidden: true });
    const main = h("button", { class: `vg-button ${fields.length ? "vg-main" : "vg-danger"}` }, go);
    const send = async () => {
      main.disabled = true;
      refused.hidden = true;
      try {
        found = await submit(Object.fromEntries(inputs.map(([name, input, label]) => [name, valueOf(input, label)])));
        dialog.close(); // it gives the focus back
      } catch (error) {
        if (!(error instanceof Refused)) console.error(error);
        refused.textContent = error.message;
        refused.hidden = false;
      }
      main.disabled = false;
    };
    const dialog = h(
      "dialog",
      { class: "vg-dialog", "aria-label": title, close: async () => { dialog.remove(); await sent; resolve(found); } },
      h(
        "form",
        {
          novalidate: true,
          submit: (event) => {
            event.preventDefault();
            if (!main.disabled) sent = send();
          },
        },
        h("h2", {}, title),
        text && h("p", {}, text),
        inputs.map(([name, input, label]) => [h("label", { for: `ask-${name}` }, label), input]),
        refused,
        h(
          "div",
          { class: "vg-row" },
          main,
          button("Cancel", () => dialog.close(), { autofocus: !fields.length }),
        ),
      ),
    );
    document.querySelector(".gradio-container").append(dialog);
    dialog.showModal();
  });
}

/** Return what is in a field of a dialog; a number that is not there is not 0. */
function valueOf(input, label) {
  const text = input.value.trim();
  if (input.type !== "number") return text;
  if (text === "") throw new Refused(`${label} is missing: write a number.`, 0);
  return number(text);
}
