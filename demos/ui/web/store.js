/* Store: what a browser remembers, ids and drafts; each server, and each person who signs in, has their own. */
import { server } from "./told.js";

const memory = new Map(); // what the browser would not take, being full or private: until the page is left

/** A sign of who was signed in when this page came, empty where nobody was: whoever comes later has pages of their own. */
export const owner = /(?:^|; )vidgen_who=(\w+)/.exec(document.cookie)?.[1] ?? "";

const place = (name) => `vidgen ${server} ${owner} ${name}`;

/** Return a remembered value. */
export function remembered(name, otherwise = null) {
  try {
    return JSON.parse(memory.get(place(name)) ?? localStorage.getItem(place(name))) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  const text = JSON.stringify(value);
  try {
    localStorage.setItem(place(name), text);
    memory.delete(place(name));
  } catch {
    memory.set(place(name), text);
  }
}
