/* Clock: several videos that show the same frame at the same time. */

export class Clock {
  /** videos: elements; fps of the first; told is called after each change with its frame. */
  constructor(videos, fps, frames, told) {
    Object.assign(this, { videos, fps, frames, told, playing: false, stopped: false });
    this.seek(0);
    const beat = () => {
      if (this.stopped) return;
      this.beat();
      requestAnimationFrame(beat);
    };
    requestAnimationFrame(beat);
  }

  get frame() {
    return Math.min(this.frames - 1, Math.floor(this.videos[0].currentTime * this.fps + 1e-3));
  }

  /** Hold the others at the first; begin again at its end. */
  beat() {
    const [first, ...others] = this.videos;
    if (this.playing && (first.ended || this.frame >= this.frames - 1)) this.restart();
    for (const other of others) {
      if (other.seeking || first.seeking) continue;
      if (Math.abs(other.currentTime - first.currentTime) > 0.5 / this.fps) other.currentTime = first.currentTime;
      if (this.playing === other.paused) other[this.playing ? "play" : "pause"]()?.catch(() => {});
    }
    this.told(this.frame);
  }

  restart() {
    for (const video of this.videos) video.currentTime = 0;
    if (this.videos[0].paused) this.videos[0].play().catch(() => {});
  }

  play() {
    this.playing = true;
    for (const video of this.videos) video.play().catch(() => {});
  }

  pause() {
    this.playing = false;
    for (const video of this.videos) video.pause();
    this.seek(this.frame);
  }

  seek(frame) {
    for (const video of this.videos) video.currentTime = (Math.max(0, Math.min(this.frames - 1, frame)) + 0.5) / this.fps;
  }

  stop() {
    this.stopped = true;
  }
}
