/* Range: <vidgen-range unit low high>, what an estimate says, in the words of all pages. */
import { bytes, seconds } from "./lib.js";

const UNITS = { bytes, seconds };

class Range extends HTMLElement {
  static observedAttributes = ["unit", "low", "high"];

  constructor() {
    super();
    this.attachShadow({ mode: "open" }); // Gradio, which compares what it drew, leaves that alone
  }

  attributeChangedCallback() {
    const [unit, ...ends] = Range.observedAttributes.map((name) => this.getAttribute(name));
    if (ends.includes(null) || unit === null) return;
    this.shadowRoot.textContent = [...new Set(ends.map((end) => UNITS[unit](Number(end))))].join(" – ");
  }
}

customElements.define("vidgen-range", Range);
