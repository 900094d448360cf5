"""The text encoder: a word tokenizer over the caption grammar and a small UMT5 encoder.

The encoder is warmed up alone to name the attributes of a caption; afterwards it trains with the
transformer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from benchmarks.train.captions import caption, vocabulary
from benchmarks.train.world import (
    BACKGROUNDS,
    COLOURS,
    MOTIONS,
    SHAPES,
    SIZES,
    SPEEDS,
    Scene,
    training_scenes,
)

MAX_LENGTH = 32
WIDTH = 64
VOCABULARY_SIZE = 64
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "size": tuple(SIZES),
    "motion": tuple(MOTIONS),
    "speed": (*SPEEDS, "none"),
    "background": tuple(BACKGROUNDS),
}


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word, lower-cased; words outside the grammar become <unk>."""
    words = [PAD, END, UNKNOWN, *vocabulary()]
    assert len(words) <= VOCABULARY_SIZE
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, ids[END])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        model_max_length=MAX_LENGTH,
    )


def build_text_encoder() -> UMT5EncoderModel:
    """The encoder with fresh weights: 64 wide, 2 layers, 0.14 M parameters."""
    config = UMT5Config(
        vocab_size=VOCABULARY_SIZE,
        d_model=WIDTH,
        d_kv=16,
        num_heads=4,
        num_layers=2,
        d_ff=256,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
    )
    return UMT5EncoderModel(config)


def tokenize(
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    rng: np.random.Generator | None = None,
    unknown_share: float = 0.02,
) -> tuple[Tensor, Tensor]:
    """Token ids and mask, int64 [b, 32]; with `rng` a few words are made unknown."""
    batch = tokenizer(
        list(texts),
        padding="max_length",
        max_length=MAX_LENGTH,
        truncation=True,
        return_tensors="pt",
    )
    ids: Tensor = batch.input_ids
    mask: Tensor = batch.attention_mask
    if rng is not None:
        hidden = torch.from_numpy(rng.random(ids.shape) < unknown_share) & (ids > 2)
        ids = ids.masked_fill(hidden, 2)
    return ids, mask


def embed(encoder: UMT5EncoderModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Text embeddings [b, 32, 64]; rows of padding are zero, as WanPipeline makes them."""
    states: Tensor = encoder(ids, mask).last_hidden_state
    return states * mask.unsqueeze(-1)


def warm_up(
    encoder: UMT5EncoderModel,
    tokenizer: PreTrainedTokenizerFast,
    rng: np.random.Generator,
    num_steps: int = 400,
    batch: int = 64,
) -> float:
    """Train the encoder until the mean of a caption's tokens names all attributes.

    Returns     the share of attributes named right over the last 20 batches, 0..1
    """
    heads = nn.ModuleDict(
        {name: nn.Linear(WIDTH, len(values)) for name, values in ATTRIBUTES.items()}
    )
    optimiser = torch.optim.AdamW([*encoder.parameters(), *heads.parameters()], lr=3e-3)
    scenes = training_scenes()
    hits: list[float] = []
    for step in range(num_steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1.0, 2 * (1 - step / num_steps))
        drawn = [scenes[int(i)] for i in rng.integers(len(scenes), size=batch)]
        ids, mask = tokenize(tokenizer, [caption(scene, rng) for scene in drawn])
        mean = embed(encoder, ids, mask).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        loss = torch.zeros(())
        right = []
        for name, values in ATTRIBUTES.items():
            logits = heads[name](mean)
            truth = torch.tensor([values.index(getattr(scene, name)) for scene in drawn])
            loss = loss + nn.functional.cross_entropy(logits, truth)
            right.append((logits.argmax(dim=-1) == truth).float().mean().item())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        hits.append(float(np.mean(right)))
    return float(np.mean(hits[-20:]))


def captions_for(
    scenes: Sequence[Scene], rng: np.random.Generator, drop_share: float = 0.1
) -> list[str]:
    """A random wording for each scene, some of them empty for classifier-free guidance."""
    return ["" if rng.random() < drop_share else caption(scene, rng) for scene in scenes]
