/* Drop: places to lay a picture, or a clip whose recipe is wanted; both are buttons as well. */
import { API, act, content, h, tell, upload } from "./lib.js";

/** Return a zone that hands over one file, dropped or chosen. */
export function zone(label, accept, take) {
  const input = h("input", { type: "file", accept, class: "vg-hidden", tabindex: "-1", "aria-label": label,
    change: () => input.files[0] && take(input.files[0]) });
  const made = h("button", { type: "button", class: "vg-zone", click: () => { input.value = ""; input.click(); } }, label);
  made.addEventListener("dragover", (event) => {
    event.preventDefault();
    made.classList.add("vg-over");
  });
  made.addEventListener("dragleave", () => made.classList.remove("vg-over"));
  made.addEventListener("drop", (event) => {
    event.preventDefault();
    made.classList.remove("vg-over");
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  return { made, input };
}

/** <vidgen-drop field label>: a picture for one field of the form. */
class Drop extends HTMLElement {
  connectedCallback() {
    const label = this.getAttribute("label");
    const { made, input } = zone(`${label}: drop a picture or press`, "image/*", (file) => this.take(file));
    this.zone = made;
    this.clear = h("button", { type: "button", class: "vg-button vg-clear", hidden: true, click: () => this.put("") },
      `Remove ${label.toLowerCase()}`);
    this.replaceChildren(made, input, this.clear);
    this.shown = null;
    this.timer = setInterval(() => this.show(), 600);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  get field() {
    return document.querySelector(`#field-${this.getAttribute("field")} textarea, #field-${this.getAttribute("field")} input`);
  }

  async take(file) {
    const made = await act(this.zone, () => upload(file));
    if (!made) return;
    if (made.kind !== "image") tell(`${file.name} is a video; a picture is wanted here.`, true);
    else this.put(`upload:${made.id}`);
  }

  put(value) {
    this.field.value = value;
    this.field.dispatchEvent(new Event("input", { bubbles: true }));
    this.show();
  }

  /** Show what the field holds, whoever put it there. */
  show() {
    const value = this.field?.value ?? "";
    if (value === this.shown) return;
    this.shown = value;
    this.clear.hidden = !value;
    const source = pictureOf(value);
    this.zone.replaceChildren(source
      ? h("img", { src: source, alt: this.getAttribute("label") })
      : value || `${this.getAttribute("label")}: drop a picture or press`);
  }
}

/** Return where the picture that a field names is to be seen: an upload, or a video's last frame. */
function pictureOf(value) {
  if (value.startsWith("upload:")) return `${API}uploads/${encodeURIComponent(value.slice(7))}/content`;
  return value.startsWith("job:") ? content(value.slice(4), "last_frame") : null;
}

customElements.define("vidgen-drop", Drop);
