/* Strip: the device, the queue, the running job and the disk, on every page. */
import { BUSY, api, bytes, h, poll, seconds } from "./lib.js";
import { owner } from "./store.js";

class Strip extends HTMLElement {
  connectedCallback() {
    poll(this, () => this.look());
  }

  async look() {
    let queue;
    try {
      queue = await api("queue");
    } catch (error) {
      this.draw([h("span", { class: "vg-badge vg-failed" }, error.message)]);
      throw error;
    }
    const busy = BUSY.some((state) => queue.states[state] > 0);
    const running = busy ? await this.running() : null;
    this.draw([...deviceOf(queue), queueOf(queue), running, diskOf(queue), signOut()]);
    return busy ? 1500 : 2500;
  }

  async running() {
    const query = BUSY.map((state) => `state=${state}`).join("&");
    const { data } = await api(`videos?limit=1&${query}`);
    if (!data.length) return null;
    const [video] = data;
    const left = video.eta_s ? ` · ${seconds(video.eta_s.p50)} left` : "";
    return h("a", { class: "vg-now", href: "#create", click: () => window.vidgen.follow(video.id) },
      h("progress", { max: 100, value: video.progress, "aria-label": "Running job" }), `${video.progress} %${left}`);
  }

  draw(parts) {
    const text = parts.map((part) => part?.outerHTML ?? "").join("");
    if (text === this.text) return;
    this.text = text;
    const pressed = () => [...this.querySelectorAll("a, button")];
    const at = pressed().indexOf(document.activeElement);
    this.replaceChildren(...parts.filter(Boolean));
    pressed()[at]?.focus();
  }
}

function deviceOf(queue) {
  if (!queue.devices.length) return [h("span", { class: "vg-badge vg-held" }, "No worker")];
  return queue.devices.slice(0, 2).map((device) => {
    const used = device.memory_bytes - device.free_bytes;
    return h("span", { class: "vg-fact", title: `${device.title}: ${bytes(device.free_bytes)} free, ${device.state}` },
      h("b", {}, device.title), h("meter", { min: 0, max: device.memory_bytes, value: used, "aria-label": "Memory used" }),
      `${bytes(used)} of ${bytes(device.memory_bytes)}`);
  });
}

function queueOf(queue) {
  const text = queue.queued ? `${queue.queued} waiting` : "queue empty";
  return h("a", { class: "vg-fact", href: "#queue" }, text);
}

function diskOf(queue) {
  if (queue.disk_free_bytes === null || queue.disk_free_bytes === undefined) return null;
  return h("span", { class: "vg-fact" }, `${bytes(queue.disk_free_bytes)} disk free`);
}

function signOut() {
  return owner ? h("form", { method: "post", action: "/ui/logout" }, h("button", { class: "vg-out" }, "Sign out")) : null;
}

customElements.define("vidgen-strip", Strip);
