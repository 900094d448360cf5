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

async function feed(media, source, id) {
  URL.revokeObjectURL(media.src);
  const stop = new AbortController();
  const answer = await fetch(content(id, "video", "&partial=true"), { signal: stop.signal });
  if (!answer.ok) return;
  // The next piece may come in minutes: a player that has gone lets go of its connection by itself.
  const watch = setInterval(() => media.isConnected || stop.abort(), 1000);
  try {
    await play(source, answer.body.getReader());
  } finally {
    clearInterval(watch);
    stop.abort();
  }
}

async function play(source, reader) {
  let head = new Uint8Array();
  let buffer = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done || source.readyState !== "open") break;
    if (buffer) {
      await append(buffer, value);
      continue;
    }
    head = joined(head, value);
    const codec = codecOf(head);
    if (codec === null) continue;
    buffer = source.addSourceBuffer(`video/mp4; codecs="${codec}"`);
    await append(buffer, head);
  }
  if (source.readyState === "open") source.endOfStream();
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
