"""The package as a user gets it: the wheel, the public names, the cost of importing it."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vidgen

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("vidgen", "attention", "chaining", "server", "benchmarks", "demos")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the work tree."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel is installed in, without its dependencies."""
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
         "--target", str(target), str(wheel)],
        capture_output=True, check=True,
    )  # fmt: skip
    return target


def run_python(code: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process in a folder, with `path` first among the installed packages."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(path)},
    )  # fmt: skip


def test_the_wheel_holds_every_package_file_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == set(PACKAGES)
    sources = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert sources <= names
    assert {"vidgen/py.typed", "attention/py.typed"} <= names


def test_the_wheel_holds_the_bundled_model(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"vidgen/toyworld/model_index.json", "vidgen/toyworld/budgets.json"} <= set(names)
    for part in ("transformer", "vae", "text_encoder"):
        assert any(
            name.startswith(f"vidgen/toyworld/{part}/") and name.endswith(".safetensors")
            for name in names
        ), part


def test_the_wheel_carries_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for file in ("LICENSE", "NOTICE"):
        assert any(name.endswith(f".dist-info/licenses/{file}") for name in names)


def test_the_installed_wheel_imports(installed: Path, tmp_path: Path) -> None:
    code = (
        "import vidgen, vidgen.request, attention; print(vidgen.__file__, attention.Grid(1, 2, 3))"
    )
    done = run_python(code, tmp_path, installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed / "vidgen" / "__init__.py"), "1x2x3"]


@pytest.mark.parametrize("decoy", ["attention.py", "attention/__init__.py"])
def test_a_decoy_attention_is_refused_with_one_sentence(
    installed: Path, tmp_path: Path, decoy: str
) -> None:
    (tmp_path / decoy).parent.mkdir(exist_ok=True)
    (tmp_path / decoy).write_text("raise SystemExit('the decoy was run')\n")
    done = run_python("import vidgen", tmp_path, installed)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        f"ImportError: Vidgen needs its own package `attention`, but {tmp_path / decoy} hides it; "
        "rename that file or start Python in another folder."
    )


def test_a_missing_attention_is_refused_with_one_sentence(installed: Path, tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / "vidgen").symlink_to(installed / "vidgen")
    hide = "import sys; sys.modules['attention'] = None; import vidgen"
    last = run_python(hide, tmp_path, lone).stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: Vidgen needs its own package `attention` (")
    assert last.endswith("which Python does not find; install Vidgen anew.")


def test_importing_vidgen_loads_only_the_standard_library(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import vidgen; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    assert run_python(code, tmp_path, ROOT).stdout.strip() == "['vidgen']"


def test_planning_loads_neither_torch_nor_diffusers(tmp_path: Path) -> None:
    code = (
        "import sys; from vidgen import VideoRequest, Plan; import vidgen.plan, vidgen.models; "
        "print([name for name in ('torch', 'diffusers', 'transformers') if name in sys.modules])"
    )
    done = run_python(code, tmp_path, ROOT)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", vidgen.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(vidgen, name)
    assert found.__name__ == name
    assert found.__module__.startswith("vidgen.")


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "vidgen" / "__init__.py").read_text("utf-8"))
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    ]
    seen = {
        alias.name: f"{node.module}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(vidgen.__all__)
    assert {name: f"vidgen.{home}" for name, home in vidgen._HOMES.items()} == seen


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Enigne'"):
        _ = vidgen.Enigne


def test_the_version_is_that_of_the_distribution() -> None:
    assert vidgen.__version__ in (ROOT / "pyproject.toml").read_text("utf-8")
