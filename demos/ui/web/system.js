/* System: what is installed, who works, and how the server is. */
import { ago, api, bytes, h, poll } from "./lib.js";
import { server } from "./told.js";

class System extends HTMLElement {
  connectedCallback() {
    this.models = h("div");
    this.installed = h("div");
    this.state = h("div", { class: "vg-twocol" });
    this.replaceChildren(h("div", { class: "vg-bar" }, h("h1", {}, "System")), this.state,
      h("section", { class: "vg-card", "aria-label": "Installed" }, h("h2", {}, "Installed"), this.installed),
      h("section", { class: "vg-card", "aria-label": "Known models" }, h("h2", {}, "Known models"), this.models));
    poll(this, () => this.look());
  }

  async look() {
    const [health, queue, workers] = await Promise.all([api("health"), api("queue"), api("workers").catch(() => null)]);
    await this.list();
    this.state.replaceChildren(
      facts("Server", [
        ["State", health.status], ["Version", health.version], ["Workers", String(health.workers ?? 0)],
        ["Waiting", `${queue.all_queued} of at most ${queue.max_queued}`], ["Disk free", bytes(queue.disk_free_bytes)],
        ["Checks", Object.entries(health.checks).map(([name, good]) => `${name} ${good ? "ok" : "not ok"}`).join(", ")],
        ["API", h("a", { href: `${server}/openapi.json` }, `${server}/openapi.json`)],
      ]),
      ...(workers ? workers.data.slice(0, 8).map(worker) : [h("p", { class: "vg-card vg-quiet" }, "Workers are shown to keys with the scope admin.")]));
    return 5000;
  }

  /** Draw models and LoRAs, where something came or went; what is folded open stays so. */
  async list() {
    const [models, loras] = (await Promise.all([api("models"), api("loras")])).map((found) => found.data);
    const form = JSON.stringify([models, loras]);
    if (form === this.listed) return;
    this.listed = form;
    this.models.replaceChildren(...models.map(model));
    this.installed.replaceChildren(table("Installed models and LoRAs", ["Name", "Kind", "For", "Licence"], [
      ...models.filter((found) => found.installed).map((found) => [found.id, "model", Object.values(found.tasks).join(", "), found.licence]),
      ...loras.map((found) => [found.id, "LoRA", "add it under Advanced, LoRAs", "–"]),
    ]), ...(loras.length ? [] : [h("p", { class: "vg-quiet" }, "No LoRAs: the server's owner names their folder with --lora-folder.")]));
  }
}

const table = (title, names, rows) => h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": title },
  h("table", { class: "vg-table" },
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));

const facts = (title, rows) => h("section", { class: "vg-card", "aria-label": title }, h("h2", {}, title),
  h("table", { class: "vg-facts" }, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value ?? "–"))))));

function worker(found) {
  const { profile } = found;
  return facts(`Worker ${found.host} ${found.device}`, [
    ["State", found.state], ["Device", profile.title], ["Memory", `${bytes(found.free_bytes)} free of ${bytes(profile.memory_bytes)}`],
    ["Attention", profile.backends.join(", ")], ["Rates", profile.rates.source], ["Warm model", found.warm.model ?? "none"],
    ["Problems", profile.problems.length ? profile.problems.join("; ") : "none"], ["Last heard", ago(found.heartbeat_at)],
  ]);
}

function model(found) {
  const own = found.defaults;
  return h("details", { class: "vg-model" },
    h("summary", {}, h("b", {}, found.id), " ", h("span", { class: `vg-badge ${found.installed ? "vg-completed" : "vg-held"}` }, found.installed ? "installed" : "not here"),
      h("span", { class: "vg-quiet" }, ` ${found.about}`)),
    h("p", { class: "vg-quiet" }, `${Object.values(found.tasks).join(", ")}. Sides are multiples of ${found.width_multiple}, frames ${found.frames_rule}. Own settings: ${own.num_inference_steps} steps, guidance ${own.guidance_scale}, ${own.num_frames} frames at ${own.fps} fps. Licence ${found.licence}.`),
    table(`Sizes of ${found.id}`, ["Size", "Pixels", "Tokens", "Trained for"],
      found.sizes.map((size) => [size.name, `${size.width}×${size.height}`, size.tokens.toLocaleString("en"), size.trained ? "yes" : "no"])));
}

customElements.define("vidgen-system", System);
