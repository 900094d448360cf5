"""The parts of one model in memory: loading them, where their weights rest, and what they are."""

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from attention.trained import Trained
from vidgen.detect import declares
from vidgen.errors import NotFound, Unsupported, VidgenError
from vidgen.hub import cached_folder, fetch
from vidgen.models import Model, refuse_pickles
from vidgen.oom import explained_memory
from vidgen.schedule import NAMES, make_scheduler
from vidgen.trained_sparse import ExtraWeights, read_extra_weights, spare_words
from vidgen.weights_file import folder_fingerprint, shard_names
from vidgen.workload import Dtype

DTYPES: dict[Dtype, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


EXPERTS = ("transformer", "transformer_2")
CLASSES = ("WanTransformer3DModel", "WanVACETransformer3DModel", "AutoencoderKLWan")


@dataclass(slots=True)
class Components:
    """A model's parts, diffusers' and transformers' own objects.

    load_text_encoder  makes the text encoder; it is dropped after use, being the largest part
    scheduler_config   the scheduler's configuration as the folder has it
    fingerprint        identifies the weights; part of a recipe and of the embedding cache's key
    extra              of each expert, the weights that trained sparse attention adds
    """

    tokenizer: Any
    load_text_encoder: Callable[[], Any]
    transformer: Any
    transformer_2: Any
    vae: Any
    scheduler_config: dict[str, Any]
    image_encoder: Any
    image_processor: Any
    expand_timesteps: bool
    fingerprint: str
    extra: tuple[ExtraWeights, ...] = ()

    @property
    def transformers(self) -> list[Any]:
        """The experts, one or two."""
        return [part for part in (self.transformer, self.transformer_2) if part is not None]


def locate(model: Model, *, offline: bool) -> Path:
    """Return the folder with a model's weights, fetching it from the hub when that is allowed.

    Raises  NotFound when it is neither here nor allowed to be fetched
    """
    if model.folder is not None:
        return model.folder
    folder = cached_folder(model.hub_id)
    if folder is None and offline:
        raise NotFound(
            f"{model.name} ({model.hub_id}) is not in the local cache and --offline forbids the "
            f"network; run `vidgen models pull {model.name}` once.",
            field="model",
        )
    folder = folder or fetch(model.hub_id)
    refuse_pickles(folder)
    return folder


def load_components(
    folder: Path,
    dtype: Dtype,
    vae_dtype: Dtype,
    *,
    decoder_only: bool = False,
    trained: Trained | None = None,
) -> Components:
    """Load a folder in diffusers' format, weights from safetensors only.

    The VAE and the CLIP tower stay in fp32: their rounding seeds the whole trajectory.
    decoder_only  load the VAE and nothing else, which suffices to decode
    trained       sparse attention whose extra weights are beside the transformer's
    Raises        NotFound when a part is missing or damaged, Unsupported for an unknown class,
                  DoesNotFit when memory runs out
    """
    _check_indexes(folder)
    with _explained(folder):
        return _load(folder, dtype, vae_dtype, decoder_only=decoder_only, trained=trained)


def _check_indexes(folder: Path) -> None:
    for path in sorted(folder.glob("*/*.safetensors.index.json")):
        try:
            shard_names(path)
        except (OSError, ValueError) as error:
            raise NotFound(
                f"{path} is no index of split weights ({error}); fetch the model again.",
                field="model",
            ) from error


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Say in one sentence why weights cannot be loaded.

    Raises  NotFound; DoesNotFit when memory ran out, which no second download would cure
    """
    way_out = "use a smaller model, or a machine with more memory"
    was = torch.get_default_dtype()
    try:
        with explained_memory(f"Loading {folder}", way_out):
            yield
    except VidgenError:
        raise
    except _LOADING as error:
        # Past the first sentence comes advice on diffusers' and transformers' own options.
        reason = " ".join(str(error).split()).split(". ")[0][:300] or type(error).__name__
        raise NotFound(
            f"The weights in {folder} cannot be loaded ({reason}); fetch the model again.",
            field="model",
        ) from error
    finally:
        torch.set_default_dtype(was)  # diffusers leaves the model's own when a part cannot be made


# What diffusers and transformers raise for a configuration whose values make no sense.
_LOADING = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    ImportError,
    RuntimeError,
    SafetensorError,
)


def _encoder(cls: Any, folder: Path, number: torch.dtype, *spare: str) -> Any:
    """Load a part of transformers, which otherwise tells of wrong shapes in a log only."""
    return _from_pretrained(cls, folder, number, *spare, ignore_mismatched_sizes=True)


def _from_pretrained(
    cls: Any, folder: Path, number: torch.dtype, *spare: str, **options: Any
) -> Any:
    """Load one part and see that every weight of it was in its files, and nothing else.

    spare   weights with such a word in their names may be left over
    Raises  NotFound for a missing weight, Unsupported for one that nothing would read
    """
    part, info = cls.from_pretrained(
        folder,
        dtype=number,
        use_safetensors=True,
        local_files_only=True,
        output_loading_info=True,
        **options,
    )
    for name, *_ in sorted(info["mismatched_keys"]):
        raise NotFound(
            f"{folder} has {name} of another shape than its config.json asks for; fetch the model "
            "again.",
            field="model",
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise NotFound(
            f"{folder} lacks {len(missing)} of the weights of {cls.__name__}, e.g. {missing[0]}; "
            "fetch the model again.",
            field="model",
        )
    left = sorted(
        name for name in info["unexpected_keys"] if not any(word in name for word in spare)
    )
    if left:
        raise Unsupported(
            f"{folder} has {len(left)} weights that {cls.__name__} does not read, e.g. {left[0]}; "
            "use a model of exactly this class whose weights are not quantised.",
            field="model",
        )
    return part.eval()


# Other halves of the models that the encoders were cut from.
_BESIDE_TEXT = ("decoder.", "lm_head.")
_BESIDE_IMAGE = ("text_model.", "_projection.", "logit_scale", "position_ids")


def _load(
    folder: Path, dtype: Dtype, vae_dtype: Dtype, *, decoder_only: bool, trained: Trained | None
) -> Components:
    import diffusers
    from transformers import AutoTokenizer, CLIPImageProcessor, CLIPVisionModel, UMT5EncoderModel

    index = json.loads((folder / "model_index.json").read_text("utf-8"))

    def part(name: str, number: torch.dtype) -> Any:
        if not declares(index, name) or (decoder_only and name != "vae"):
            return None
        if index[name][1] not in CLASSES:
            raise Unsupported(
                f"{folder} wants {index[name][1]} as its {name}; Vidgen runs {', '.join(CLASSES)}.",
                field="model",
            )
        spare = spare_words(trained) if name in EXPERTS else ()
        return _from_pretrained(getattr(diffusers, index[name][1]), folder / name, number, *spare)

    def text_encoder() -> Any:
        with _explained(folder):
            return _encoder(UMT5EncoderModel, folder / "text_encoder", DTYPES[dtype], *_BESIDE_TEXT)

    image_encoder = image_processor = None
    if declares(index, "image_encoder") and not decoder_only:
        image_encoder = _encoder(
            CLIPVisionModel, folder / "image_encoder", torch.float32, *_BESIDE_IMAGE
        )
        image_processor = CLIPImageProcessor.from_pretrained(
            folder / "image_processor", local_files_only=True
        )
    tokenizer = None
    if not decoder_only:
        tokenizer = AutoTokenizer.from_pretrained(
            folder / "tokenizer", local_files_only=True, trust_remote_code=False
        )
    experts = {name: part(name, DTYPES[dtype]) for name in EXPERTS}
    extra: tuple[ExtraWeights, ...] = ()
    if trained is not None:
        extra = tuple(
            read_extra_weights(folder / name, trained, layers=len(expert.blocks))
            for name, expert in experts.items()
            if expert is not None
        )
    return Components(
        tokenizer=tokenizer,
        load_text_encoder=text_encoder,
        **experts,
        vae=part("vae", DTYPES[vae_dtype]),
        scheduler_config=_scheduler_config(folder),
        image_encoder=image_encoder,
        image_processor=image_processor,
        expand_timesteps=bool(index.get("expand_timesteps", False)),
        fingerprint=folder_fingerprint(folder),
        extra=extra,
    )


def _scheduler_config(folder: Path) -> dict[str, Any]:
    path = folder / "scheduler" / "scheduler_config.json"
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a JSON object")
    for name in NAMES:  # a run makes its own; this one finds values that make no sense
        make_scheduler(name, 1.0, config).set_timesteps(2)
    return config


def module_fingerprint(*modules: Any) -> str:
    """Identify modules that were made in memory by the bytes of their weights."""
    digest = hashlib.sha256()
    for module in modules:
        for name, tensor in module.state_dict().items():
            digest.update(f"{name}:{tuple(tensor.shape)}:".encode())
            data = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
            digest.update(data.numpy().tobytes())
    return digest.hexdigest()[:32]


def release(device: torch.device) -> None:
    """Give freed memory back to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
