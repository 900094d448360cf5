"""The training's command line: `python -m benchmarks.train latents|vae|dit|look|export|...`.

`python -m benchmarks.train --smoke` runs every step for a few seconds, end to end.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.train.run import be_modest

SHIPPED = Path(__file__).resolve().parents[2] / "vidgen" / "toyworld"
COMMANDS = ("latents", "vae", "dit", "curves", "look", "export", "evaluate", "all")


def build_parser() -> argparse.ArgumentParser:
    """All options of all commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train", description=__doc__)
    parser.add_argument("command", nargs="?", choices=COMMANDS)
    parser.add_argument("--smoke", action="store_true", help="everything, in about a minute")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path.home() / ".cache" / "vidgen" / "train",
        help="checkpoints, latents and logs (default: %(default)s)",
    )
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="the exported pipeline")
    parser.add_argument(
        "--budget-seconds", type=float, default=3600.0, help="wall-clock length of this session"
    )
    parser.add_argument(
        "--decay-share",
        type=float,
        default=None,
        help="last share of the session over which the learning rate falls to 0 "
        "(default: vae 0.5, dit 0.35)",
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="go on from the work folder's checkpoint, if there is one",
    )
    parser.add_argument(
        "--start",
        type=Path,
        default=None,
        help="pipeline folder to begin with where there is no checkpoint",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="threads of this process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=8, help="clips per transformer step")
    parser.add_argument(
        "--high-share",
        type=float,
        default=0.08,
        help="dit: share of samples at noise 0.9 to 1, where the layout is decided",
    )
    parser.add_argument(
        "--shift", type=float, default=2.5, help="dit: skew of the noise levels towards noise"
    )
    parser.add_argument(
        "--uniform-share", type=float, default=0.35, help="dit: share of samples at any noise level"
    )
    parser.add_argument("--rank", type=int, default=0, help="dit: this process among its peers")
    parser.add_argument("--peers", type=int, default=1, help="dit: processes sharing the run")
    parser.add_argument(
        "--still-share", type=float, default=0.0, help="vae: share of steps on single whole frames"
    )
    parser.add_argument(
        "--night-share", type=float, default=0.0, help="vae: share of steps on night scenes"
    )
    parser.add_argument(
        "--latent-noise", type=float, default=0.08, help="vae: noise added to the decoder's inputs"
    )
    parser.add_argument(
        "--large-crops", action="store_true", help="vae: large crops from the start"
    )
    parser.add_argument(
        "--decoder-only", action="store_true", help="vae: leave the encoder as it is"
    )
    parser.add_argument("--layers", type=int, default=4, help="transformer blocks of a new run")
    parser.add_argument("--shape", default="17x96x96", help="frames x height x width of latents")
    parser.add_argument("--shards", type=int, default=12, help="latents: number of shards")
    parser.add_argument("--clips", type=int, default=1000, help="latents: clips per shard")
    parser.add_argument(
        "--mix",
        nargs="+",
        default=["17x96x96:1"],
        help="dit: clip shapes and how often each is drawn, e.g. 17x96x96:0.6 33x192x192:0.4",
    )
    _add_numbers(parser)
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=20, help="sampling steps")
    parser.add_argument("--sheets", type=Path, default=None, help="folder for contact sheets")
    parser.add_argument("--card", action="store_true", help="evaluate: rewrite the model card")
    parser.add_argument("--result", type=Path, default=None, help="evaluate: JSON to write")
    parser.add_argument("--out", type=Path, default=Path("curves.png"), help="curves: the picture")
    return parser


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    """How many clips each part of an evaluation makes; 0 leaves the part out."""
    for option, default, what in (
        ("--number", 200, "held-out prompts, from text (look: 24 are enough)"),
        ("--number-i2v", 96, "held-out prompts, from a first frame"),
        ("--number-large", 32, "clips of 192x192, 33 frames (14 times the cost)"),
        ("--number-long", 8, "clips of 192x192, 81 frames (45 times the cost)"),
        ("--number-pinned", 32, "clips for each way to give frames"),
        ("--number-control", 48, "clips of untrained weights"),
        ("--number-checks", 32, "true clips for the detector and the VAE"),
    ):
        parser.add_argument(option, type=int, default=default, help=f"evaluate: {what}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command."""
    parser = build_parser()
    args = parser.parse_args(argv)
    be_modest(args.threads)
    if args.smoke:
        from benchmarks.train.smoke import smoke

        with tempfile.TemporaryDirectory() as temporary:
            smoke(Path(temporary))
        return
    if args.command is None:
        parser.error("name a command, or --smoke")
    steps = ("latents", "vae", "dit", "export", "evaluate")
    for command in steps if args.command == "all" else (args.command,):
        _COMMANDS[command](args)


def _shape(text: str) -> tuple[int, int, int]:
    frames, height, width = (int(side) for side in text.split("x"))
    return frames, height, width


def _mix(texts: Sequence[str]) -> tuple[tuple[tuple[int, int, int], float], ...]:
    pairs = (text.split(":") for text in texts)
    return tuple((_shape(shape), float(share)) for shape, share in pairs)


def _latents(args: argparse.Namespace) -> None:
    from benchmarks.train.data import write_shard

    for number in range(args.shards):
        print(write_shard(args.work, _shape(args.shape), number, args.clips), flush=True)


def _vae(args: argparse.Namespace) -> None:
    from benchmarks.train import vae

    decay = 0.5 if args.decay_share is None else args.decay_share
    vae.train(
        args.work,
        args.budget_seconds,
        vae.Settings(
            still_share=args.still_share,
            latent_noise=args.latent_noise,
            decoder_only=args.decoder_only,
            night_share=args.night_share,
            large_crops=args.large_crops,
        ),
        device=args.device,
        resume=args.resume,
        start=args.start,
        decay_share=decay,
        seed=args.seed,
    )


def _dit(args: argparse.Namespace) -> None:
    from benchmarks.train import dit
    from benchmarks.train.peers import Peers

    decay = 0.35 if args.decay_share is None else args.decay_share
    settings = dit.Settings(
        layers=args.layers,
        batch=args.batch,
        mix=_mix(args.mix),
        shift=args.shift,
        uniform_share=args.uniform_share,
        high_share=args.high_share,
    )
    dit.train(
        args.work,
        args.budget_seconds,
        settings,
        device=args.device,
        resume=args.resume,
        start=args.start,
        decay_share=decay,
        peers=Peers(args.rank, args.peers),
        seed=args.seed,
    )


def _look(args: argparse.Namespace) -> None:
    from benchmarks.train.monitor import look, summary

    print(
        summary(
            look(
                args.work,
                args.sheets or args.work,
                number=args.number,
                guidance=args.guidance,
                num_steps=args.steps,
                seed=args.seed,
            )
        )
    )


def _export(args: argparse.Namespace) -> None:
    from benchmarks.train.export import export

    print(f"{args.folder}: {export(args.work, args.folder) / 1e6:.1f} MB")


def _evaluate(args: argparse.Namespace) -> None:
    from benchmarks.report import report, write_report
    from benchmarks.train.card import write_card
    from benchmarks.train.evaluate import Numbers, evaluate
    from benchmarks.train.tables import acceptance_table, markdown

    numbers = Numbers(
        t2v=args.number,
        i2v=args.number_i2v,
        large=args.number_large,
        long=args.number_long,
        pinned=args.number_pinned,
        control=args.number_control,
        checks=args.number_checks,
    )
    result = evaluate(
        args.folder,
        numbers,
        guidance=args.guidance,
        num_steps=args.steps,
        seed=args.seed,
        sheets=args.sheets,
    )
    content = report(
        f"python -m benchmarks.train evaluate --number {args.number} "
        f"--number-i2v {args.number_i2v} --number-large {args.number_large} "
        f"--number-long {args.number_long} --number-pinned {args.number_pinned} "
        f"--number-control {args.number_control} --number-checks {args.number_checks} "
        f"--steps {args.steps} --guidance {args.guidance:g} --seed {args.seed}",
        **result,
    )
    if args.result is not None:
        write_report(args.result, content)
    if args.card:
        write_card(args.folder / "README.md", args.work, content)
    print(markdown(result), acceptance_table(result["acceptance"]), sep="\n\n")


def _curves(args: argparse.Namespace) -> None:
    from benchmarks.train.curves import draw_curves

    draw_curves(args.work, args.out)
    print(args.out)


_COMMANDS = {
    "latents": _latents,
    "vae": _vae,
    "dit": _dit,
    "curves": _curves,
    "look": _look,
    "export": _export,
    "evaluate": _evaluate,
}

if __name__ == "__main__":
    main()
