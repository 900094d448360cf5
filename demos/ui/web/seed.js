/* Seed: draw one, or keep one from clip to clip. */
import { button, h } from "./lib.js";

/**
 * <vidgen-seed>: beside the form's field of that name. A seed that was typed, filled in or kept stays
 * for the next clips; one that was drawn here is for the next clip only.
 */
class Seed extends HTMLElement {
  connectedCallback() {
    this.kept = false;
    this.seen = "";
    this.lock = button("", () => this.toggle(), { id: "keep-seed" });
    this.said = h("span", { class: "vg-quiet", role: "status" });
    this.replaceChildren(h("div", { class: "vg-row" }, button("Draw a seed", () => this.put(window.vidgen.seed(), this.kept), { id: "dice" }), this.lock, this.said));
    this.draw();
    this.timer = setInterval(() => this.look(), 250);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  get field() {
    return document.querySelector("#field-seed textarea, #field-seed input");
  }

  /** The seed of the clip that is shown beside the form. */
  get shown() {
    return document.querySelector("vidgen-live")?.shown?.seed ?? null;
  }

  /** What is kept, as the field's text; empty where nothing is. */
  get own() {
    return this.kept ? this.seen : "";
  }

  /** Notice what others put into the field. */
  look() {
    const value = this.field?.value.trim() ?? "";
    if (value !== this.seen) {
      this.seen = value;
      this.kept = value !== "";
    }
    this.draw();
  }

  put(value, kept) {
    this.seen = value;
    this.kept = kept;
    this.field.value = value;
    this.field.dispatchEvent(new Event("input", { bubbles: true }));
    this.draw();
  }

  toggle() {
    this.look();
    if (this.kept) return this.put("", false);
    return this.put(this.seen || String(this.shown ?? window.vidgen.seed()), true);
  }

  /** A clip was asked for with what the field holds. */
  used() {
    this.look();
    if (!this.kept && this.seen) this.put("", false);
  }

  draw() {
    const name = this.kept ? "Seed is kept" : this.seen || this.shown === null ? "Keep this seed" : `Keep seed ${this.shown}`;
    if (this.lock.textContent !== name) this.lock.textContent = name;
    this.lock.setAttribute("aria-pressed", String(this.kept));
    this.lock.title = this.kept ? "Press to draw another one for each clip again" : "Make the next clips with the seed of the clip that is shown";
    const said = this.kept ? "The next clips have it too." : this.seen ? "For the next clip." : "Each clip draws its own.";
    if (this.said.textContent !== said) this.said.textContent = said;
  }
}

customElements.define("vidgen-seed", Seed);
