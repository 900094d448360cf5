"""What a library's user can hand over wrong is refused in one sentence, before any work."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.cases import Case, inputs_of, make_plan, picture, pixels
from tests.engine.test_engine import TOY, engine
from tests.folders import save_tiny
from vidgen.components import load_components
from vidgen.embeddings import EmbeddingCache
from vidgen.engine import Engine
from vidgen.errors import BadMedia, BadRequest, NotFound, Unsupported, VidgenError
from vidgen.families import family
from vidgen.hub import is_whole
from vidgen.inputs import Inputs, fitted
from vidgen.latents import SavedLatents, load_latents, save_latents
from vidgen.models import resolve
from vidgen.recipe import parse_recipe
from vidgen.residency import Residency
from vidgen.tiny import tiny_components, tiny_model
from vidgen.weights_file import folder_fingerprint

DIT = "transformer/diffusion_pytorch_model.safetensors"
VAE = "vae/diffusion_pytorch_model.safetensors"
TEXT = "text_encoder/model.safetensors"
STILL = pixels(picture(1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "t2v", "wan2.1-t2v")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "model")


def change(path: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    edit(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def load(folder: Path, dtype: Any = "float32") -> None:
    resolve(str(folder))
    load_components(folder, dtype, "float32").load_text_encoder()


@pytest.mark.parametrize("name", [DIT, VAE, TEXT])
def test_weights_that_are_missing_are_not_made_up(copy: Path, name: str) -> None:
    change(copy / name, lambda found: found.pop(next(key for key in found if "block" in key)))
    with pytest.raises(NotFound, match=r"lacks 1 of the weights of .*, e\.g\. "):
        load(copy)


@pytest.mark.parametrize("name", [DIT, VAE, TEXT])
def test_weights_of_another_shape_are_named(copy: Path, name: str) -> None:
    def cut(found: dict[str, torch.Tensor]) -> None:
        key = next(key for key in sorted(found) if found[key].ndim > 1)
        found[key] = found[key][..., :-1].contiguous()

    change(copy / name, cut)
    with pytest.raises(NotFound, match=r"\w+\.\w+.* shape") as caught:
        load(copy)
    assert "ignore_mismatched_sizes" not in caught.value.message


@pytest.mark.parametrize("name", [DIT, VAE, TEXT])
def test_weights_that_nothing_reads_are_refused(copy: Path, name: str) -> None:
    change(copy / name, lambda found: found.update({"scale_weight": torch.ones(1)}))
    with pytest.raises(Unsupported, match=r"1 weights that .* does not read, e\.g\. scale_weight"):
        load(copy)


def test_the_decoder_of_a_whole_text_model_may_lie_beside_its_encoder(copy: Path) -> None:
    change(copy / TEXT, lambda found: found.update({"decoder.x": torch.ones(1)}))
    load(copy)


@pytest.mark.parametrize(
    ("listed", "error", "word"),
    [
        ({"weight_map": {"a": "../x.safetensors"}}, Unsupported, "same folder"),
        ({"weight_map": {"a": "/x.safetensors"}}, Unsupported, "same folder"),
        ({"weight_map": {"a": "x.bin"}}, Unsupported, "x.bin"),
        ({"weight_map": {"a": 1}}, NotFound, "weight_map"),
        ({}, NotFound, "weight_map"),
        ([], NotFound, "weight_map"),
    ],
)
@pytest.mark.parametrize("name", [DIT, TEXT])
def test_an_index_of_split_weights_names_files_beside_it(
    copy: Path, name: str, listed: Any, error: Any, word: str
) -> None:
    (copy / f"{name}.index.json").write_text(json.dumps(listed))
    with pytest.raises(error, match=word):
        resolve(str(copy)) if error is Unsupported else load(copy)
    assert not is_whole(copy)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"vae": None}, "names no class for vae"),
        ({"transformer": [None, None]}, "names no class for transformer"),
        ({"transformer": ["diffusers", "AutoencoderKLWan"]}, "names AutoencoderKLWan"),
        ({"boundary_ratio": "x"}, "boundary_ratio is 'x'"),
        ({"boundary_ratio": 5}, "boundary_ratio is 5"),
    ],
)
def test_an_index_names_the_classes_that_are_loaded(copy: Path, changes: Any, word: str) -> None:
    path = copy / "model_index.json"
    data = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    with pytest.raises(Unsupported, match=word):
        resolve(str(copy))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latents_mean", [0.0]), ("latents_mean", None), ("latents_std", [0.0] * 16),
        ("latents_std", [float("nan")] * 16), ("dim_mult", "abcd"), ("dim_mult", [1, 1, 1, -1]),
    ],
)  # fmt: skip
def test_a_vae_can_normalise_its_latents(copy: Path, name: str, value: Any) -> None:
    path = copy / "vae" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(Unsupported, match=name):
        resolve(str(copy))


@pytest.mark.parametrize("value", ["3", -1, 0, 10**12, None, 2.5, True])
@pytest.mark.parametrize("key", ["transformer/num_layers", "vae/base_dim", "text_encoder/d_ff"])
def test_sizes_are_positive_numbers(copy: Path, key: str, value: Any) -> None:
    part, name = key.split("/")
    path = copy / part / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(Unsupported, match=f"{part} has {name}="):
        resolve(str(copy))


def test_json_that_is_nested_without_end_is_one_sentence(copy: Path) -> None:
    deep = "[" * 100_000
    (copy / "transformer" / "config.json").write_text(deep)
    with pytest.raises(Unsupported, match="cannot be read as JSON"):
        resolve(str(copy))
    (copy / "model_index.json").write_text(deep)
    assert not is_whole(copy)
    with pytest.raises(BadMedia, match="not a Vidgen recipe"):
        parse_recipe(deep, "x")


def test_a_part_that_cannot_be_made_leaves_torch_as_it_was(copy: Path) -> None:
    path = copy / "transformer" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attention_head_dim": 25}))
    with pytest.raises(NotFound, match="cannot be loaded"):
        load(copy, "bfloat16")
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    "config",
    [[], {"num_train_timesteps": "x"}, {"num_train_timesteps": 0}, {"num_train_timesteps": -1}],
)
def test_a_scheduler_that_cannot_be_made_is_found_when_loading(copy: Path, config: Any) -> None:
    (copy / "scheduler" / "scheduler_config.json").write_text(json.dumps(config))
    with pytest.raises(NotFound, match="cannot be loaded"):
        load(copy)


def test_linked_parts_count_in_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    prints = []
    for number in range(2):
        made = shutil.copytree(folder, tmp_path / str(number))
        encoder = shutil.move(made / "text_encoder", tmp_path / f"encoder{number}")
        (made / "text_encoder").symlink_to(encoder)
        if number:
            change(made / TEXT, lambda found: found[sorted(found)[0]].add_(1))
        prints.append(folder_fingerprint(made))
    assert prints[0] != prints[1]


ARRAYS: dict[str, tuple[Any, str]] = {
    "bytes": ((STILL * 255).astype(np.uint8), "uint8"),
    "up to 255": (STILL * 255, "values from"),
    "down to -1": (STILL * 2 - 1, "values from -"),
    "not a number": (STILL * np.float32("nan"), "from nan"),
    "double": (STILL.astype(np.float64), "float64"),
    "grey": (STILL[:, :, 0], r"\(64, 64\)"),
    "with alpha": (np.ones((8, 8, 4), np.float32), r"\(8, 8, 4\)"),
    "channels first": (STILL.transpose(2, 0, 1), r"\(3, 64, 64\)"),
    "empty": (STILL[:0], r"\(0, 64, 3\)"),
    "a video": (STILL[None], r"\(1, 64, 64, 3\)"),
    "a tensor": (torch.from_numpy(STILL), "is a Tensor"),
    "a picture": (picture(1), "is a Image"),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_pictures_in_memory_are_looked_at(kind: str) -> None:
    array, word = ARRAYS[kind]
    for name in ("image", "last_image"):
        with pytest.raises(BadRequest, match=word) as caught:
            Inputs(**{name: array})
        assert caught.value.field == name
    with pytest.raises(BadRequest):
        Inputs(references=(array,))
    if kind != "a video":
        frames = array[None] if isinstance(array, np.ndarray) else array
        for name in ("video", "mask"):
            with pytest.raises(BadRequest):
                Inputs(**{name: frames})


def test_videos_in_memory_are_as_long_as_planned() -> None:
    with pytest.raises(BadRequest, match="mask has 2 frames, the video 3"):
        Inputs(video=np.stack([STILL] * 3), mask=np.stack([STILL] * 2))
    case = Case(family("wan2.1-t2v"), "v2v")
    given = inputs_of(case)
    assert isinstance(given.video, np.ndarray)
    short = dataclasses.replace(given, video=given.video[:5])
    with pytest.raises(BadRequest, match="reads 9 frames of the video, 5 are given"):
        engine(case).run(make_plan(case), short)


def test_a_prefix_is_the_end_of_a_video_in_memory() -> None:
    frames = np.stack([np.full((8, 8, 3), i / 20, np.float32) for i in range(20)])
    kept = fitted(Inputs(video=frames), 8, 8, "crop", 9, 5).frames()
    assert kept is not None
    assert np.array_equal(kept, frames[-5:])


def test_an_index_outside_the_plan_is_refused() -> None:
    run, made = engine(TOY), make_plan(TOY, n=2)
    for index in (-1, 2, 10**20):
        with pytest.raises(BadRequest, match="use 0 to 1"):
            run.run(made, index=index)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"device": "cuda:99"}, "use cpu"), ({"device": "banana"}, "use cpu"),
        ({"device": "meta"}, "use cpu"), ({"dtype": "float64"}, "use float32"),
        ({"offload": "x"}, "use none, model, group"),
    ],
)  # fmt: skip
def test_unknown_words_are_refused_before_loading(options: Any, word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        engine(TOY, **options)
    missing = dataclasses.replace(tiny_model(TOY.family), folder=Path("/no/such/folder"))
    with pytest.raises(BadRequest if "offload" not in options else VidgenError):
        Engine.load(missing, **options)


def test_a_plan_for_another_model_of_the_same_name_is_refused() -> None:
    run = engine(TOY)
    run.model = dataclasses.replace(tiny_model(family("wan2.2-ti2v")), name=run.model.name)
    with pytest.raises(BadRequest, match="another tiny-toyworld"):
        run.run(make_plan(TOY))


def test_an_engine_that_only_decodes_says_so() -> None:
    parts = tiny_components(TOY.family)
    parts.transformer = None
    with pytest.raises(BadRequest, match="decoder_only"):
        Engine(tiny_model(TOY.family), parts).run(make_plan(TOY))


def test_latents_that_are_not_their_recipe_s_are_refused(tmp_path: Path) -> None:
    run, path = engine(TOY), tmp_path / "x.safetensors"
    clip = run.run(make_plan(TOY), latents_path=path)
    made = clip.recipe["plan"]
    assert torch.equal(load_latents(path).latents, clip.latents)
    for latents, word in (
        (clip.latents + 1, "was changed"), (clip.latents[:, :0], "was changed"),
        (clip.latents[0], "4-D"),
    ):  # fmt: skip
        save_latents(path, latents, clip.recipe)
        with pytest.raises(BadMedia, match=word):
            load_latents(path)
    for number in (torch.float16, torch.float8_e4m3fn, torch.complex64, torch.int64):
        save_file({"latents": clip.latents.to(number)}, path)
        with pytest.raises(BadMedia, match="float32"):
            load_latents(path)
    damaged: list[dict[str, Any]] = [
        {"plan": "x"}, {"plan": {**made, "fps": "1/0"}}, {"plan": {**made, "seed": None}},
        {"plan": {**made, "export_width": "x"}}, {"adjustments": None}, {"trace": []},
        {"trace": {"seconds": None}}, {"latents_sha256": 1},
    ]  # fmt: skip
    for change_ in damaged:
        save_latents(path, clip.latents, {**clip.recipe, **change_})
        with pytest.raises(BadMedia, match="recipe that is damaged"):
            load_latents(path)
    for latents in (clip.latents[:, :0], clip.latents[:, :, :4], clip.latents[0]):
        with pytest.raises(BadRequest, match="shape"):
            run.decode(SavedLatents(latents, clip.recipe))
    with pytest.raises(BadRequest, match="use whole"):
        run.decode(SavedLatents(clip.latents, clip.recipe), tiling="x")  # type: ignore[arg-type]
    with pytest.raises(BadMedia, match="not a file of latents"):
        load_latents(tmp_path / ("x" * 5000))


@pytest.mark.parametrize("visit", ["bring_expert", "on_device"])
def test_a_part_that_came_half_way_goes_back(visit: str) -> None:
    """Memory runs out in the middle of a move: some weights are on the device by then."""
    residency = Residency(tiny_components(TOY.family), torch.device("cpu"), "model")
    moves: list[str] = []

    class Part:
        def to(self, device: Any) -> None:
            moves.append(str(device))
            if len(moves) == 1:
                raise torch.OutOfMemoryError("no memory")

    if visit == "on_device":
        with pytest.raises(torch.OutOfMemoryError), residency.on_device(Part()):
            pass
    else:
        with pytest.raises(torch.OutOfMemoryError):
            residency.bring_expert(Part())
    residency.rest_experts()
    assert len(moves) == 2


def test_a_cached_embedding_of_another_shape_is_made_anew(tmp_path: Path) -> None:
    wanted = engine(TOY, cache=EmbeddingCache(tmp_path)).run(make_plan(TOY)).latents
    for damage in (torch.ones(1, 3, 3), torch.ones(2), torch.ones(1, 512, 32) * float("nan")):
        for path in tmp_path.iterdir():
            save_file({"embedding": damage}, path)
        clip = engine(TOY, cache=EmbeddingCache(tmp_path)).run(make_plan(TOY))
        assert clip.trace.cache_hits == 0
        assert torch.equal(clip.latents, wanted)
