/* Store: what a browser remembers, ids and drafts; each server, and each tenant who signs in, has their own. */
import { server } from "./told.js";

const memory = new Map(); // what the browser would not take, being full or private: until the page is left

/** A sign of who was signed in when this page came, empty where nobody was: whoever comes later has pages of their own. */
export const owner = /(?:^|; )vidgen_who=(\w+)/.exec(document.cookie)?.[1] ?? "";

const placeOf = (name, who) => `vidgen ${server} ${who} ${name}`;
const place = (name) => placeOf(name, owner);

/** Return what a browser holds under a name: this tab's own first, then what any tab wrote last. */
function held(at) {
  return memory.get(at) ?? sessionStorage.getItem(at) ?? localStorage.getItem(at);
}

/** Return a remembered value; what is of another kind than `otherwise` was not written by us. */
export function remembered(name, otherwise = null) {
  try {
    const value = JSON.parse(held(place(name)) ?? handedOver(name)) ?? otherwise;
    return otherwise === null || kind(value) === kind(otherwise) ? value : otherwise;
  } catch {
    return otherwise;
  }
}

const kind = (value) => (Array.isArray(value) ? "array" : value === null ? "null" : typeof value);

/** Take over what was written here before anybody had to sign in; it is then no longer anybody's. */
function handedOver(name) {
  if (!owner) return null;
  const before = placeOf(name, "");
  const text = localStorage.getItem(before);
  if (text !== null) {
    localStorage.setItem(place(name), text);
    localStorage.removeItem(before);
  }
  return text;
}

/** Remember a value for this tab, and for those that are opened later; where the browser takes it no more, say so once. */
export function remember(name, value) {
  const text = JSON.stringify(value);
  const at = place(name);
  const kept = [sessionStorageOf, localStorageOf].map((storage) => put(storage, at, text));
  if (kept.some(Boolean)) memory.delete(at);
  else {
    memory.set(at, text);
    window.dispatchEvent(new Event("vidgen-unkept"));
  }
}

const sessionStorageOf = () => sessionStorage;
const localStorageOf = () => localStorage;

/** Write a text; an older one does not stay in its place, or it would come back as if it were the last. */
function put(storage, at, text) {
  try {
    storage().removeItem(at);
    storage().setItem(at, text);
    return true;
  } catch {
    return false;
  }
}
