/* System: what is installed, who works, and how the server is. */
import { ago, api, bytes, h, poll } from "./lib.js";

class System extends HTMLElement {
  connectedCallback() {
    this.models = h("div");
    this.state = h("div", { class: "vg-twocol" });
    this.replaceChildren(h("div", { class: "vg-bar" }, h("h1", {}, "System")), this.state,
      h("section", { class: "vg-card", "aria-label": "Models" }, h("h2", {}, "Models"), this.models));
    poll(this, () => this.look());
  }

  async look() {
    const [health, queue, workers] = await Promise.all([api("health"), api("queue"), api("workers").catch(() => null)]);
    if (!this.listed) {
      this.listed = await api("models");
      this.models.replaceChildren(...this.listed.data.map(model));
    }
    const server = this.getAttribute("server");
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
}

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
    h("div", { class: "vg-scroll", tabindex: "0", role: "region", "aria-label": `Sizes of ${found.id}` },
      h("table", { class: "vg-table" },
        h("thead", {}, h("tr", {}, ["Size", "Pixels", "Tokens", "Trained for"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.sizes.map((size) => h("tr", {}, h("td", {}, size.name), h("td", {}, `${size.width}×${size.height}`), h("td", {}, size.tokens.toLocaleString("en")), h("td", {}, size.trained ? "yes" : "no")))))));
}

customElements.define("vidgen-system", System);
