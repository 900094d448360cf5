"""scripts/setup.py: what it decides before it installs anything."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "setup.py"


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, pointed at a folder of its own."""
    spec = importlib.util.spec_from_file_location("vidgen_setup", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.INPUTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", venv)
    monkeypatch.setattr(module, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", venv / "stamp")
    monkeypatch.setattr(module, "LOG", venv / "log")
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    return module


def torch_says(monkeypatch: pytest.MonkeyPatch, output: str, code: int = 0) -> None:
    """Let every subprocess answer like an interpreter that prints its torch's version."""
    answer = subprocess.CompletedProcess([], code, output, "")
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_kwargs: answer)


def test_nothing_is_run_when_the_stamp_is_current(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_install", lambda: pytest.fail("it installed"))
    setup.STAMP.write_text(setup._stamp())
    assert setup.main() == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "scripts/setup.py"])
def test_a_change_of_any_input_makes_the_stamp_stale(setup: ModuleType, name: str) -> None:
    setup.STAMP.write_text(setup._stamp())
    (setup.ROOT / name).write_text("changed")
    assert not setup._is_current()


def test_an_old_python_is_refused_with_one_sentence(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 2))
    assert setup.main() == 1
    assert capsys.readouterr().err == (
        f"setup: Vidgen needs Python 3.11 or newer and `{sys.executable}` is 3.10; name a newer "
        "one, e.g. `make demo PYTHON=python3.12`.\n"
    )


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        ("2.10.1", False),
        ("2.11.0+cu130", True),
        ("2.13.0+cpu", True),
        ("3.0.0", False),
        ("", False),
    ],
)
def test_an_installed_torch_is_kept_when_it_is_in_range(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str, kept: bool
) -> None:
    torch_says(monkeypatch, version + "\n")
    assert setup._torch_of(Path("python")) == (version if kept else None)


def test_a_torch_that_does_not_import_counts_as_absent(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_says(monkeypatch, "2.13.0\n", code=1)
    assert setup._torch_of(Path("python")) is None


@pytest.mark.parametrize("version", ["2.11.0+cu130", ""])
def test_a_new_venv_sees_the_torch_of_its_interpreter(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, version, "")

    monkeypatch.setattr(subprocess, "run", run)
    setup.STAMP.write_text("/elsewhere\nhash\n")  # moved, so it is made anew
    setup._make_venv()
    options = ["--clear", "--system-site-packages"] if version else ["--clear"]
    assert commands[-1] == [sys.executable, "-m", "venv", *options, str(setup.VENV)]


def test_a_package_whose_installation_was_cut_off_is_redone(setup: ModuleType) -> None:
    site = setup.VENV / "lib" / "python3.11" / "site-packages"
    for name, files in {"whole": ["METADATA", "RECORD"], "half": ["METADATA"]}.items():
        (site / f"{name}-1.dist-info").mkdir(parents=True)
        for file in files:
            (site / f"{name}-1.dist-info" / file).touch()
    setup._drop_half_installed()
    assert [path.name for path in site.iterdir()] == ["whole-1.dist-info"]


@pytest.mark.parametrize("gpu", [True, False])
def test_the_cuda_build_is_fetched_only_where_there_is_a_gpu(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(setup, "_runs", lambda _: gpu)
    monkeypatch.setattr(setup, "_torch_of", lambda _: "2.13.0")
    monkeypatch.setattr(setup, "_try_pip", lambda *args: asked.append(args[-1]) or False)
    monkeypatch.setattr(setup, "_logged", lambda command: asked.append(" ".join(command)) or True)
    setup.LOG.touch()
    with pytest.raises(setup.SetupError):
        setup._install_torch()
    assert asked == (["torch==2.13.0"] if gpu else ["torch==2.13.0+cpu", "uv"])


def test_the_range_of_torch_is_that_of_the_project(setup: ModuleType) -> None:
    (low, high) = (".".join(map(str, bound)).removesuffix(".0") for bound in setup.TORCH_RANGE)
    assert f'"torch>={low},<{high}"' in (SCRIPT.parent.parent / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("requires", "kept"),
    [("filelock\nsympy>=1.13\n", True), ("filelock\ntriton==3.6.0; platform_system\n", False)],
)
def test_a_torch_that_brings_its_own_triton_keeps_it(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, requires: str, kept: bool
) -> None:
    (setup.ROOT / "constraints.txt").write_text("tqdm==4.70\ntriton==3.9.0\n")
    torch_says(monkeypatch, requires)
    pins = setup._pins("2.11.0", brings_triton=setup._brings_triton(setup.PYTHON))
    assert ("triton==3.9.0" in pins) is kept
    assert pins.splitlines()[-1] == "torch==2.11.0"
