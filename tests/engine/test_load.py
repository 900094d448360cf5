"""Loading folders: the right family, the right number formats, golden parity after loading."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.cases import PROMPT
from tests.folders import save_tiny
from vidgen.components import folder_fingerprint
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.errors import NotFound, Unsupported, VidgenError
from vidgen.families import FAMILIES, family
from vidgen.models import known_names, resolve
from vidgen.plan import Plan, plan
from vidgen.request import parse_request


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


def test_damaged_weights_are_one_sentence(tmp_path: Path) -> None:
    for part, damage in (("transformer", b"x" * 64), ("vae", b""), ("text_encoder", b"junk")):
        folder = save_tiny(tmp_path / part, "wan2.1-t2v")
        next((folder / part).glob("*.safetensors")).write_bytes(damage)
        request = parse_request({"model": str(folder), "prompt": "x"})
        with pytest.raises(NotFound, match="cannot be loaded"):
            load_and_run(plan(request, named("cpu")))


def load_and_run(made: Plan) -> None:
    Engine.load(made.model).run(made)
