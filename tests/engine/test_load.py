"""Loading folders: the right family, the right number formats, golden parity after loading."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.cases import PROMPT
from tests.folders import save_tiny
from vidgen.budgets import BUDGETS_FILE
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.errors import BadRequest, NotFound, Unsupported, VidgenError
from vidgen.families import FAMILIES, family
from vidgen.hub import fetch, is_whole
from vidgen.models import known_names, resolve
from vidgen.plan import Plan, plan
from vidgen.request import parse_request
from vidgen.weights_file import folder_fingerprint, safetensors_header


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {row.name: save_tiny(root / row.name, row.name) for row in FAMILIES}


def test_a_folder_is_recognised_as_its_family(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        model = resolve(str(folder))
        assert model.family is family(name)
        assert model.folder == folder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["toyworld", "wan2.1-t2v", "wan2.2-t2v-a14b"])
def test_a_loaded_folder_equals_diffusers_from_pretrained(
    folders: dict[str, Path], name: str, dtype: str
) -> None:
    import diffusers

    model = resolve(str(folders[name]))
    fields = {"model": str(folders[name]), "prompt": PROMPT, "negative_prompt": "dark", "seed": 5,
              "size": "64x64", "frames": 5, "steps": 2, "cfg": 3, "sampler": "unipc", "shift": 3,
              "dtype": dtype}  # fmt: skip
    made = plan(parse_request(fields), named("cpu"))
    clip = Engine.load(model, dtype=made.dtype).run(made)
    number = getattr(torch, dtype)
    vae = diffusers.AutoencoderKLWan.from_pretrained(folders[name], subfolder="vae")
    pipe = diffusers.WanPipeline.from_pretrained(folders[name], vae=vae, dtype=number)
    pipe.scheduler = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    assert pipe.transformer.dtype == number
    wanted = pipe(
        prompt=PROMPT,
        negative_prompt="dark",
        height=64,
        width=64,
        num_frames=5,
        num_inference_steps=2,
        guidance_scale=3.0,
        generator=torch.Generator().manual_seed(5),
        max_sequence_length=model.family.text_length,
        output_type="latent",
    ).frames[0]
    assert torch.equal(clip.latents, wanted)


def test_pickled_weights_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "pickled", "wan2.1-t2v")
    weights = next((folder / "transformer").glob("*.safetensors"))
    weights.rename(weights.with_name("diffusion_pytorch_model.bin"))
    with pytest.raises(Unsupported, match="pickle"):
        resolve(str(folder))


@pytest.mark.parametrize(
    ("cls", "transformer", "word"),
    [
        ("SanaVideoPipeline", "SanaVideoTransformer3DModel", "linear attention"),
        ("StableVideoDiffusionPipeline", "UNetSpatioTemporalConditionModel", "U-Net"),
        ("LTXPipeline", "LTXVideoTransformer3DModel", "not a family"),
    ],
)
def test_other_architectures_are_refused(
    tmp_path: Path, cls: str, transformer: str, word: str
) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": cls}))
    for part in ("transformer", "vae", "text_encoder"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text(json.dumps({"_class_name": transformer}))
    with pytest.raises(Unsupported, match=word):
        resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "error", "word"),
    [
        ("wan2.1-t2v-1.3", NotFound, "wan2.1-t2v-1.3b"),
        ("nobody/has-this", NotFound, "local cache"),
        ("/no/such/folder", NotFound, "not a known name"),
    ],
)
def test_unknown_models_name_the_way_out(name: str, error: Any, word: str) -> None:
    with pytest.raises(error, match=word):
        resolve(name)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("model_index.json", None), ("model_index.json", "{"), ("transformer/config.json", "[]"),
        ("vae/config.json", None), ("transformer/config.json", "nonsense"),
    ],
)  # fmt: skip
def test_broken_folders_are_one_sentence(tmp_path: Path, part: str, text: str | None) -> None:
    folder = save_tiny(tmp_path / "model", "wan2.1-t2v")
    if text is None:
        (folder / part).unlink()
    else:
        (folder / part).write_text(text)
    with pytest.raises(VidgenError):
        resolve(str(folder))


def test_offline_never_asks_the_network() -> None:
    """The session's guard fails any connection; the sentence says what to do."""
    for name in known_names()[1:3]:
        with pytest.raises(NotFound, match="offline"):
            Engine.load(resolve(name), offline=True)


def test_fingerprint_follows_the_weights(folders: dict[str, Path], tmp_path: Path) -> None:
    other = save_tiny(tmp_path / "other", "wan2.1-t2v", seed=1)
    same = save_tiny(tmp_path / "same", "wan2.1-t2v")
    prints = [folder_fingerprint(folder) for folder in (folders["wan2.1-t2v"], same, other)]
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]
    (same / BUDGETS_FILE).write_text("{}", "utf-8")  # measured on the weights, no part of them
    assert folder_fingerprint(same) == prints[0]


def test_damaged_weights_are_one_sentence(tmp_path: Path) -> None:
    for part, damage in (("transformer", b"x" * 64), ("vae", b""), ("text_encoder", b"junk")):
        folder = save_tiny(tmp_path / part, "wan2.1-t2v")
        next((folder / part).glob("*.safetensors")).write_bytes(damage)
        request = parse_request({"model": str(folder), "prompt": "x"})
        with pytest.raises(NotFound, match="cannot be loaded"):
            load_and_run(plan(request, named("cpu")))


def load_and_run(made: Plan) -> None:
    Engine.load(made.model).run(made)


def edit(folder: Path, part: str, **changes: Any) -> None:
    """Change a JSON file of a folder; None takes a key out."""
    path = folder / part
    data = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}), "utf-8")


DIT, VAE, TEXT = "transformer/config.json", "vae/config.json", "text_encoder/config.json"
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("wan2.1-t2v", DIT, {"in_channels": 48}, "in_channels=48"),
    ("wan2.1-t2v", DIT, {"in_channels": 52}, "in_channels=52"),
    ("wan2.2-i2v-a14b", DIT, {"in_channels": 52}, "in_channels=52"),
    ("wan2.2-i2v-a14b", "transformer_2/config.json", {"in_channels": 16}, "transformer_2 has in"),
    ("wan2.2-ti2v", DIT, {"in_channels": 100}, "in_channels=100"),
    ("wan2.1-t2v", DIT, {"out_channels": 48, "in_channels": 48}, "out_channels=48"),
    ("wan2.1-t2v", DIT, {"patch_size": [1, 4, 4]}, "patch_size"),
    ("wan2.1-t2v", DIT, {"patch_size": 2}, "wrong type"),
    ("wan2.1-t2v", DIT, {"text_dim": 64}, "text_dim=64"),
    ("wan2.1-i2v", DIT, {"image_dim": None}, "image_dim=None"),
    ("wan2.1-t2v", DIT, {"image_dim": 32}, "image_dim=32"),
    ("wan2.1-vace", DIT, {"vace_in_channels": 132}, "vace_in_channels=132"),
    ("wan2.1-t2v", VAE, {"temperal_downsample": [True, True, True]}, "temporal stride of 8"),
    ("wan2.1-t2v", VAE, {"scale_factor_temporal": 8}, "scale_factor_temporal=8"),
    ("wan2.1-t2v", VAE, {"dim_mult": [1, 1, 1]}, "spatial stride of 4"),
    ("wan2.2-ti2v", VAE, {"scale_factor_spatial": 32}, "scale_factor_spatial=32"),
    ("wan2.1-t2v", VAE, {"_class_name": "AutoencoderKL"}, "its vae is AutoencoderKL"),
    ("wan2.1-t2v", TEXT, {"model_type": "t5"}, "text_encoder is t5, not umt5"),
    ("wan2.1-i2v", "model_index.json", {"image_encoder": [None, None]}, "image_encoder is missing"),
    ("wan2.1-vace", "model_index.json", {"transformer_2": ["diffusers", "X"]}, "second expert"),
    ("wan2.1-flf2v", "model_index.json", {"image_encoder": None}, "image_encoder is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "part", "changes", "word"), REFUSED)
def test_folders_that_no_family_fits_are_refused(
    folders: dict[str, Path], tmp_path: Path, name: str, part: str, changes: Any, word: str
) -> None:
    """A copy without weights: nothing but JSON is read."""
    folder = shutil.copytree(
        folders[name], tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors")
    )
    edit(folder, part, **changes)
    with pytest.raises(Unsupported, match=word) as caught:
        resolve(str(folder))
    assert caught.value.field == "model"
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "part"), [("wan2.1-i2v", "image_encoder"), ("wan2.2-t2v-a14b", "transformer_2")]
)
def test_a_folder_without_a_part_is_refused(
    folders: dict[str, Path], tmp_path: Path, name: str, part: str
) -> None:
    folder = shutil.copytree(folders[name], tmp_path / "model")
    shutil.rmtree(folder / part)
    with pytest.raises(Unsupported, match=part):
        resolve(str(folder))


def test_missing_numbers_are_diffusers_defaults(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["wan2.1-t2v"], tmp_path / "model")
    missing = {"in_channels": None, "out_channels": None, "patch_size": None}
    edit(folder, DIT, **missing)
    edit(folder, VAE, scale_factor_spatial=None, scale_factor_temporal=None, z_dim=None)
    assert resolve(str(folder)).family.name == "wan2.1-t2v"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("a--b/c", "no hub id"), ("a/b..c", "no hub id"), ("-a/b", "no hub id"),
        ("..//x", "not a known name"), ("x" * 5000, "not a known name"),
        ("a/" + "x" * 300, "hub id"), ("~nobody-at-all/x", "not a known name"),
    ],
)  # fmt: skip
def test_malformed_names_are_one_sentence(name: str, word: str) -> None:
    with pytest.raises(NotFound, match=word) as caught:
        resolve(name)
    assert "\n" not in caught.value.message
    if word == "no hub id":
        with pytest.raises(NotFound, match=word):
            fetch(name)


def snapshot(cache: Path, source: Path) -> Path:
    """A model in the hub's cache as a download leaves it; returns the snapshot's folder."""
    root = cache / "models--owner--name"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("f" * 40)
    return shutil.copytree(source, root / "snapshots" / ("f" * 40))


def test_cache_and_loading_are_without_the_network(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """In a process that may use the network: HF_HUB_OFFLINE is not set."""
    code = (
        "import socket, sys\n"
        "def refuse(*args, **kwargs): raise SystemExit(f'network: {args}')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import vidgen.hub, vidgen.models, vidgen.components\n"
        "assert 'huggingface_hub' not in sys.modules\n"
        "from huggingface_hub import constants\n"
        "assert not constants.HF_HUB_OFFLINE\n"
        "folder = vidgen.hub.cached_folder('owner/name')\n"
        "print(vidgen.hub.cached_folder('owner/absent'), folder)\n"
        "heavy = [name for name in ('httpx', 'huggingface_hub.hf_api') if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "parts = vidgen.components.load_components(folder, 'float32', 'float32')\n"
        "parts.load_text_encoder()\n"
    )
    folder = snapshot(tmp_path, folders["wan2.1-i2v"])
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**env, "HF_HUB_CACHE": str(tmp_path), "HF_HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["None", str(folder)]


def test_snapshots_that_lack_something_are_not_whole(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    whole = folders["wan2.2-t2v-a14b"]
    assert is_whole(whole)
    lacking: list[str] = ["model_index.json", "vae", "tokenizer"]
    weights = "transformer_2/diffusion_pytorch_model.safetensors"
    for number, name in enumerate([*lacking, weights]):
        folder = shutil.copytree(whole, tmp_path / str(number))
        gone = folder / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        assert not is_whole(folder), name
    split = shutil.copytree(whole, tmp_path / "split")
    first = split / weights
    names = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    listed = {"weight_map": {"a": names[0], "b": names[1]}}
    (split / "transformer_2" / "diffusion_pytorch_model.safetensors.index.json").write_text(
        json.dumps(listed)
    )
    first.rename(first.with_name(names[0]))
    assert not is_whole(split)
    (first.with_name(names[1])).symlink_to(tmp_path / "no such blob")
    assert not is_whole(split)
    (tmp_path / "no such blob").write_bytes(b"here now")
    assert is_whole(split)


def test_a_damaged_weights_file_is_found_without_loading(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    path = next((folders["wan2.1-t2v"] / "vae").glob("*.safetensors"))
    assert safetensors_header(path).whole_bytes == path.stat().st_size
    for data in (b"", b"x" * 64, path.read_bytes()[:50], (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "a.safetensors").write_bytes(data)
        with pytest.raises(BadRequest, match="safetensors file") as caught:
            safetensors_header(tmp_path / "a.safetensors")
        assert "\n" not in caught.value.message
    with pytest.raises(BadRequest, match="No such file"):
        safetensors_header(tmp_path / "absent.safetensors")
