"""The room itself: cheap to import, one module for ffmpeg-python, no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import vidgen.media

ROOM = Path(vidgen.media.__file__).parent
HEAVY = (
    "av",
    "PIL",
    "imageio",
    "imageio_ffmpeg",
    "ffmpeg",
    "torch",
    "diffusers",
    "cv2",
    "pathvalidate",
)


def test_importing_every_module_loads_nothing_heavy() -> None:
    names = [f"vidgen.media.{file.stem}" for file in ROOM.glob("*.py") if file.stem != "__init__"]
    script = f"import sys, {', '.join(names)}; print([n for n in {HEAVY!r} if n in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


def test_importing_the_package_loads_not_even_numpy() -> None:
    script = "import sys, vidgen.media; print('numpy' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "False"


def test_all_names_resolve() -> None:
    for name in vidgen.media.__all__:
        assert getattr(vidgen.media, name) is not None
    assert sorted(vidgen.media.__all__, key=str.lower) == sorted(vidgen.media._HOMES, key=str.lower)
    assert not hasattr(vidgen.media, "nonsense")


def imports(file: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_only_one_module_knows_ffmpeg_python() -> None:
    assert [file.name for file in ROOM.glob("*.py") if "ffmpeg" in imports(file)] == ["graph.py"]


def test_ffmpeg_is_ffmpeg_python() -> None:
    """Other distributions, such as typed-ffmpeg, install a module of the same name."""
    from importlib.metadata import packages_distributions

    import ffmpeg

    assert packages_distributions()["ffmpeg"] == ["ffmpeg-python"]
    for name in ("input", "output", "filter", "get_args", "compile"):
        assert callable(getattr(ffmpeg, name))


def test_this_room_knows_no_models() -> None:
    for file in ROOM.glob("*.py"):
        assert not imports(file) & {"torch", "diffusers", "transformers"}, file.name
