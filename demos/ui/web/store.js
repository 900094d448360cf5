/* Store: what a browser remembers, ids and drafts; each server, and each person who signs in, has their own. */
import { server } from "./told.js";

const memory = new Map(); // where a private window forbids the rest: until the page is left

/** Return a sign of who is signed in, empty where nobody is. */
export const who = () => /(?:^|; )vidgen_who=(\w+)/.exec(document.cookie)?.[1] ?? "";

const place = (name) => `vidgen ${server} ${who()} ${name}`;

/** Return a remembered value. */
export function remembered(name, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(place(name))) ?? otherwise;
  } catch {
    return memory.get(place(name)) ?? otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(place(name), JSON.stringify(value));
  } catch {
    memory.set(place(name), value);
  }
}
