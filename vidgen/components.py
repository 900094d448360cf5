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

from vidgen.detect import declares
from vidgen.errors import NotFound, Unsupported, VidgenError
from vidgen.hub import cached_folder, fetch
from vidgen.models import Model, refuse_pickles
from vidgen.oom import explained_memory
from vidgen.weights_file import folder_fingerprint
from vidgen.workload import Dtype

DTYPES: dict[Dtype, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


CLASSES = ("WanTransformer3DModel", "WanVACETransformer3DModel", "AutoencoderKLWan")


@dataclass(slots=True)
class Components:
    """A model's parts, diffusers' and transformers' own objects.

    load_text_encoder  makes the text encoder; it is dropped after use, being the largest part
    scheduler_config   the scheduler's configuration as the folder has it
    fingerprint        identifies the weights; part of a recipe and of the embedding cache's key
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
    folder: Path, dtype: Dtype, vae_dtype: Dtype, *, decoder_only: bool = False
) -> Components:
    """Load a folder in diffusers' format, weights from safetensors only.

    The VAE and the CLIP tower stay in fp32: their rounding seeds the whole trajectory.
    decoder_only  load the VAE and nothing else, which suffices to decode
    Raises        NotFound when a part is missing or damaged, Unsupported for an unknown class,
                  DoesNotFit when memory runs out
    """
    with _explained(folder):
        return _load(folder, dtype, vae_dtype, decoder_only=decoder_only)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Say in one sentence why weights cannot be loaded.

    Raises  NotFound; DoesNotFit when memory ran out, which no second download would cure
    """
    way_out = "use a smaller model, or a machine with more memory"
    try:
        with explained_memory(f"Loading {folder}", way_out):
            yield
    except VidgenError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise NotFound(
            f"The weights in {folder} cannot be loaded ({reason}); fetch the model again.",
            field="model",
        ) from error


def _load(folder: Path, dtype: Dtype, vae_dtype: Dtype, *, decoder_only: bool) -> Components:
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
        cls = getattr(diffusers, index[name][1])
        return cls.from_pretrained(
            folder, subfolder=name, dtype=number, use_safetensors=True, local_files_only=True
        ).eval()

    def text_encoder() -> Any:
        with _explained(folder):
            return UMT5EncoderModel.from_pretrained(
                folder / "text_encoder",
                dtype=DTYPES[dtype],
                use_safetensors=True,
                local_files_only=True,
            ).eval()

    image_encoder = image_processor = None
    if declares(index, "image_encoder") and not decoder_only:
        image_encoder = CLIPVisionModel.from_pretrained(
            folder / "image_encoder",
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
        ).eval()
        image_processor = CLIPImageProcessor.from_pretrained(
            folder / "image_processor", local_files_only=True
        )
    tokenizer = None
    if not decoder_only:
        tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    return Components(
        tokenizer=tokenizer,
        load_text_encoder=text_encoder,
        transformer=part("transformer", DTYPES[dtype]),
        transformer_2=part("transformer_2", DTYPES[dtype]),
        vae=part("vae", DTYPES[vae_dtype]),
        scheduler_config=_scheduler_config(folder),
        image_encoder=image_encoder,
        image_processor=image_processor,
        expand_timesteps=bool(index.get("expand_timesteps", False)),
        fingerprint=folder_fingerprint(folder),
    )


def _scheduler_config(folder: Path) -> dict[str, Any]:
    path = folder / "scheduler" / "scheduler_config.json"
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
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
