/* What the form's own handlers call; loaded before everything else. */
(() => {
  let trigger = null;
  const waiting = [];
  const random = (length) => crypto.getRandomValues(new Uint32Array(length));
  window.vidgen = {
    /** A new idempotency key: one click, one job. */
    key: () => [...random(4)].map((part) => part.toString(16).padStart(8, "0")).join(""),
    /** A new seed, as the text of the seed's field. */
    seed: () => String(random(1)[0] >>> 1),
    /** The form says how it is reached. */
    connect(send) {
      trigger = send;
      waiting.splice(0).forEach(send);
    },
    /** Ask something of the form: reuse or edit a job, take a recipe, show fields. */
    send(message) {
      if (trigger) trigger(message);
      else waiting.push(message);
    },
    /** The form has handed in a job: show it; a seed that was for one clip is spent. */
    made(id) {
      if (!id) return;
      window.vidgen.follow(id);
      document.querySelector("vidgen-seed")?.used();
    },
    /** Show a job in the live card. */
    follow(id) {
      if (id) document.querySelector("vidgen-live").follow(id);
    },
  };
})();
