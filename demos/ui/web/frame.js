/* Frame: one frame of a finished clip becomes the first image of a new one. */
import { Refused, make, upload } from "./lib.js";
import { go } from "./routing.js";

// What a clip that goes on from a frame does not take over.
const NOT = ["seed", "image", "last_image", "video", "mask", "reference_images", "prefix_frames", "strength"];

/** Fill the form with the clip's settings and its frame; the last one is the server's own still. */
export async function useFrame(video, frame) {
  const image = frame === video.num_frames - 1 && video.variants.last_frame ? `job:${video.id}` : await sent(video, frame);
  const own = video.kind === "clip" && video.request ? video.request : { ...video.request?.request, prompt: video.prompt?.split("\n").at(-1) ?? "" };
  const fields = Object.fromEntries(Object.entries({ ...own, model: video.model }).filter(([name]) => !NOT.includes(name)));
  const seed = document.querySelector("vidgen-seed")?.own;
  const said = `Frame ${frame + 1} is the first image. Write what happens then, and press Generate.`;
  if (!(await window.vidgen.send({ action: "fields", fields: { ...fields, image, ...(seed ? { seed } : {}) }, said }))) return;
  go("create");
  await taken(image);
}

/** Wait until the form has it. */
async function taken(image) {
  const field = () => document.querySelector("#field-image :is(textarea, input)")?.value;
  for (let tries = 0; field() !== image; tries++) {
    if (tries === 100) throw new Refused("The form did not take the frame; press again.", 0);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Have the frame read with the colours of the file, which a browser's canvas need not do, and keep it. */
async function sent(video, frame) {
  const data = await (await make("frame", { clips: [video.id], frame })).blob();
  const made = await upload(new File([data], `${video.id}-frame-${frame}.png`, { type: "image/png" }));
  return `upload:${made.id}`;
}
