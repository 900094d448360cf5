/* Growing: a long video that is played while its later clips are still made. */
import { content, h } from "./lib.js";

/** Return a video element that is fed with the fragments of a job as they come. */
export function growing(video) {
  const media = h("video", { controls: true, muted: true, autoplay: true, playsinline: true,
    class: video.width < 320 ? "vg-small" : "", "aria-label": "The video as far as it is made" });
  media.style.aspectRatio = `${video.width} / ${video.height}`;
  if (typeof MediaSource === "undefined") return media;
  const source = new MediaSource();
  media.src = URL.createObjectURL(source);
  source.addEventListener("sourceopen", () => feed(media, source, video.id).catch(() => {}), { once: true });
  return media;
}

const AGAIN_MS = 2000;

/** Bring all pieces; where the connection breaks off, go on behind what has come already. */
async function feed(media, source, id) {
  URL.revokeObjectURL(media.src);
  const film = { source, head: new Uint8Array(), buffer: null, come: 0 };
  for (;;) {
    const ended = await bring(media, film, id).catch(() => false);
    if (source.readyState !== "open" || !media.isConnected) return;
    if (ended) return source.endOfStream();
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** Bring pieces until the film or the connection ends; return whether it was the film, or is refused. */
async function bring(media, film, id) {
  const stop = new AbortController();
  const answer = await fetch(content(id, "video", "&partial=true"), { signal: stop.signal });
  if (!answer.ok) return answer.status < 500;
  // The next piece may come in minutes: a player that has gone lets go of its connection by itself.
  const watch = setInterval(() => media.isConnected || stop.abort(), 1000);
  try {
    await play(film, answer.body.getReader());
  } finally {
    clearInterval(watch);
    stop.abort();
  }
  return true;
}

async function play(film, reader) {
  let skip = film.come; // the stream is the same each time
  for (;;) {
    const { done, value } = await reader.read();
    if (done || film.source.readyState !== "open") return;
    const piece = value.subarray(Math.min(skip, value.length));
    skip -= value.length - piece.length;
    if (!piece.length) continue;
    film.come += piece.length;
    await show(film, piece);
  }
}

async function show(film, piece) {
  if (film.buffer) return append(film.buffer, piece);
  film.head = joined(film.head, piece);
  const codec = codecOf(film.head);
  if (codec === null) return;
  film.buffer = film.source.addSourceBuffer(`video/mp4; codecs="${codec}"`);
  await append(film.buffer, film.head);
}

function append(buffer, data) {
  return new Promise((resolve, reject) => {
    const heard = new AbortController();
    const once = (end) => (event) => { heard.abort(); end(event); };
    buffer.addEventListener("updateend", once(resolve), { signal: heard.signal });
    buffer.addEventListener("error", once(reject), { signal: heard.signal });
    buffer.appendBuffer(data);
  });
}

function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** Read the codec's name out of the box avcC; null while it has not come. */
export function codecOf(data) {
  for (let at = 0; at + 8 < data.length; at++) {
    if (data[at] === 0x61 && data[at + 1] === 0x76 && data[at + 2] === 0x63 && data[at + 3] === 0x43) {
      return `avc1.${[5, 6, 7].map((k) => data[at + k].toString(16).padStart(2, "0")).join("")}`;
    }
  }
  return null;
}
