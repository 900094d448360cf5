"""The program: the table of its commands, and how every way of ending becomes an exit code.

A command's module is imported when the command is run, so that `vidgen --help` stays quick. Each
command returns nothing (exit code 0) or an exit code.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from vidgen.cli.upper import home_of_command
from vidgen.errors import BadRequest, Cancelled, DoesNotFit, NotFound, VidgenError

_ABOUT = (
    "One video request on one device, from the prompt to the clip.\n\n"
    'vidgen generate "a big red ball moves quickly left over the sand" makes a clip with toyworld, '
    "a small bundled toy world of coloured things on plain grounds, which runs on any CPU. For "
    "real pictures name a real model: --model wan2.1-t2v-1.3b (see vidgen models ls), a folder in "
    "diffusers' format, or a hub id."
)

_COMMANDS = (
    ("generate", "Make a clip from a prompt, with or without pictures."),
    ("batch", "Make many clips: prompts x images x a grid of settings; goes on where it stopped."),
    ("chain", "Make a long video of clips that continue each other, its drift measured."),
    ("extend", "Continue any video from any of its frames."),
    ("drift", "Measure how a long video drifts; compare, plant and prove drift."),
    ("decode", "Finish a clip from the latents that an earlier run left."),
    ("info", "Show how a file was made and what is in it."),
    ("repeat", "Make a file's clip again from the recipe inside it, and compare."),
    ("finish", "Trim, interpolate, scale, give sound or another format to a clip."),
    ("compare", "Compare clips: figures, and a video that shows them in step."),
    ("serve", "Serve the API with its workers: durable jobs over HTTP."),
    ("ui", "Open the studio in a browser, in front of a server."),
    ("worker", "Work for a server on another machine or device."),
    ("queue", "See and change what waits and runs: here, or on a server."),
    ("keys", "Make and end API keys; set what each tenant may use."),
    ("models", "List, check and fetch models; legal sizes."),
    ("loras", "List LoRAs and check which of a model's layers they match."),
    ("budgets", "Measure how sparse attention is best divided among a model's heads."),
    ("doctor", "Check this machine: libraries, GPU, ffmpeg, disk, colours."),
    ("config", "Show and set defaults, and where each comes from."),
    ("gc", "Delete old latents, leftovers and caches."),
)


def _version() -> str:
    from importlib.metadata import version

    return version("vidgen")


def program(words: Sequence[str]) -> App:
    """Return the program; the command that is called keeps its own, longer help text."""
    app = App(
        name="vidgen",
        help=_ABOUT,
        version=_version,
        help_format="plaintext",
        default_parameter=Parameter(negative=()),
        suppress_keyboard_interrupt=False,
    )
    for name, text in _COMMANDS:
        called = words[:1] == [name]
        place = home_of_command(name, words, os.environ)
        app.command(place, name=name, help=None if called else text)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _mend_streams()
    try:
        result = program(words)(
            words, exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(BadRequest(" ".join(str(error).split()), code="bad_option"), words)
    except VidgenError as error:
        return _fail(error, words)
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        return _fail(Cancelled("Aborted."), words)
    except OSError as error:
        return _fail(_from_system(error), words)
    except Exception as error:  # noqa: BLE001 - the last resort; -v shows the traceback
        return _fail(_unexpected(error), words)
    return result if isinstance(result, int) else 0


def _mend_streams() -> None:
    """Have every text go through: a closed stream swallows it, a narrow encoding escapes it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - kept
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _from_system(error: OSError) -> VidgenError:
    """Word what the system says of a file: it knows best what cannot be opened or written."""
    made: VidgenError
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        made = DoesNotFit("The disk is full; free space and try again.")
    elif error.filename is None:
        return _unexpected(error)
    else:
        name = os.fsdecode(error.filename)
        if isinstance(error, FileNotFoundError):
            made = NotFound(f"{name} does not exist.")
        else:
            shown = name if len(name) <= 100 else f"{name[:97]}..."
            made = BadRequest(f"{shown!r} cannot be used: {error.strerror}.", code="bad_path")
    made.__cause__ = error
    return made


def _unexpected(error: Exception) -> VidgenError:
    text = " ".join(str(error).split()) or "no reason given"
    made = VidgenError(
        f"Something that Vidgen did not foresee went wrong ({type(error).__name__}: {text}); "
        "-v shows where.",
        code="unexpected",
    )
    made.__cause__ = error
    return made


def _fail(error: VidgenError, words: Sequence[str]) -> int:
    """Tell an error in the way that was asked for, and return its exit code."""
    try:
        if {"-v", "--verbose"} & set(words):
            import traceback

            traceback.print_exception(error)
        if {"--json", "--json=true"} & set(words):
            print(json.dumps({"error": error.as_dict()}), flush=True)
        else:
            print(f"vidgen: {error.message}", file=sys.stderr, flush=True)
    except OSError:  # nobody reads along, or the disk of the output is full
        return _leave_quietly()
    return error.exit_code


def _leave_quietly() -> int:
    """The reader of our output has gone: keep Python from complaining about it at exit."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - kept until the exit
    return 1
