/* Main: brings the pages to life and follows the address. */
import "./core.js";
import "./range.js";
import { here } from "./routing.js";
import { copy } from "./lib.js";
import "./strip.js";
import "./live.js";
import "./drop.js";
import "./seed.js";
import "./starters.js";
import "./queue.js";
import "./library.js";
import "./board.js";
import "./compare.js";
import "./system.js";

/** Hints that the form does not spell out are its tooltips. */
function hint() {
  for (const field of document.querySelectorAll(".vg-field:not([title])")) {
    const text = field.querySelector(".info-text")?.textContent;
    if (text) field.title = text;
  }
}

function show() {
  const { page } = here();
  document.documentElement.dataset.page = page;
  document.title = page === "create" ? "Vidgen" : `Vidgen: ${page}`;
  for (const link of document.querySelectorAll("[data-vg-page]")) {
    if (link.dataset.vgPage === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

window.addEventListener("hashchange", show);
new MutationObserver(() => {
  if (document.querySelector("[data-vg-page]:not([data-vg-seen])")) {
    document.querySelectorAll("[data-vg-page]").forEach((link) => (link.dataset.vgSeen = "1"));
    show();
  }
  hint();
}).observe(document.documentElement, { childList: true, subtree: true });
show();

document.addEventListener("click", (event) => {
  const asked = event.target.closest?.("[data-vg-copy]");
  if (!asked) return;
  const text = asked.closest("figure").querySelector("code").textContent;
  copy(text, `${asked.dataset.vgCopy} is copied.`);
});

document.documentElement.lang = "en";
