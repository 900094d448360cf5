/* Differ: in what the settings of several jobs differ, in words. */

/** Return a job's settings by name. */
export function flat(video) {
  const { shots, request, ...rest } = video.request ?? {};
  const story = shots ? { shots: shots.map((shot) => `${shot.seconds} s: ${shot.prompt}`).join("\n") } : {};
  return { model: video.model, ...story, ...rest, ...(request ?? {}), seed: video.seed };
}

export const text = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));

/** Return [name, ...one value a job] of each setting that is not the same in all. */
export function differing(videos) {
  const found = videos.map(flat);
  const names = [...new Set(found.flatMap(Object.keys))];
  return names.map((name) => [name, ...found.map((item) => text(item[name]))]).filter(([, ...values]) => new Set(values).size > 1);
}

/** Return what sets each job apart, e.g. "attention dense"; its number where nothing does. */
export function apart(videos) {
  const rows = differing(videos);
  const found = videos.map((_, k) => rows.map(([name, ...values]) => `${name.replaceAll("_", " ")} ${[...values[k].split("\n")[0]].slice(0, 60).join("")}`).join(", "));
  return found.map((said, k) => (found.indexOf(said) === found.lastIndexOf(said) ? said : [said, `clip ${videos[k].id.slice(-6)}`].filter(Boolean).join(", ")));
}
