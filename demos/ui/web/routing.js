/* Routing: the page and what is open on it stand in the address, as #page/id. */

import { pages } from "./told.js";

/** Return where the address leads. */
export function here() {
  const [page, ...rest] = decoded(location.hash.slice(1)).split("/");
  return { page: pages.includes(page) ? page : pages[0], item: rest.join("/") };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // an address that is none leads to the first page
  }
}

export function go(page, item = "") {
  location.hash = item ? `${page}/${item}` : page;
}

/** Call `show` now and whenever the address changes, with what is open on this page. */
export function onPage(page, show) {
  const look = () => {
    const found = here();
    if (found.page === page) show(found.item);
  };
  window.addEventListener("hashchange", look);
  look();
}
