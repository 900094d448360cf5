/* Story draft: what is written for a storyboard and only this browser knows. */
import { counted, sure } from "./lib.js";
import { remember, remembered } from "./store.js";

const MOST_ELSEWHERE = 60; // written in cards of storyboards that are not open

export const blank = () => ({ prompt: "", seconds: 1 });

/** Return the shots of the draft; there is one at least. */
export function draft() {
  const shots = remembered("board.new", []);
  return shots.length ? shots : [blank()];
}

export const keepDraft = (shots) => remember("board.new", shots);

/** Say that these shots are to be had elsewhere too: they were rendered, or a button made them. */
export const known = (shots) => remember("board.known", shots);

/** Put shots in the draft's place and open it, first asking whether one that is nowhere else may go; return whether it was done. */
export async function replaceDraft(shots) {
  const old = draft();
  const [first, ...more] = old.filter((shot) => shot.prompt);
  if (first && JSON.stringify(old) !== JSON.stringify(remembered("board.known"))) {
    const name = `“${first.prompt.slice(0, 80)}”${more.length ? ` and ${counted(more.length, "more shot")}` : ""}`;
    if (!(await sure("Replace the draft?", `The storyboard's draft has not been rendered and is kept nowhere else: ${name}.`, "Replace it"))) return false;
  }
  keepDraft(shots);
  known(shots);
  remember("board.open", null);
  return true;
}

const of = (board, card) => (item) => item.board === board && item.card === card;

/** Return what the fields of a card hold: what was written there, else what it was made of. */
export function written(board, { index, prompt, seconds, transition }) {
  return remembered("board.written", []).find(of(board, index))?.shot ?? { prompt, seconds, transition };
}

/** Keep what is written in a card; null when it was made so. */
export function write(board, card, shot) {
  const others = remembered("board.written", []).filter((item) => !of(board, card)(item));
  const elsewhere = others.filter((item) => item.board !== board).slice(-MOST_ELSEWHERE);
  const own = others.filter((item) => item.board === board);
  remember("board.written", [...elsewhere, ...own, ...(shot ? [{ board, card, shot }] : [])]);
}

/** Take what is written in a storyboard along to the one that was made of it. */
export function carry(board, made) {
  const items = remembered("board.written", []);
  remember("board.written", items.map((item) => (item.board === board ? { ...item, board: made } : item)));
}
