"""The table of model families: what one architecture can do and how it wants to be run.

A family is an architecture with its recipe; a model (`vidgen.models`) is a checkpoint of it. Rows
are plain data: nothing here imports torch or diffusers. A new architecture is a new row.
"""

from dataclasses import dataclass
from typing import Literal

from attention.patterns import Compensate, Score

Task = Literal["t2v", "i2v", "flf2v", "last", "prefix", "v2v", "vace"]

TASK_WORDS: dict[Task, str] = {
    "t2v": "text to video",
    "i2v": "first frame to video",
    "flf2v": "first and last frame to video",
    "last": "video that ends on a given frame",
    "prefix": "continue given frames",
    "v2v": "video to video",
    "vace": "controlled video (VACE)",
}

# The negative prompt that Wan's authors use for every checkpoint (Wan-Video/Wan2.1, configs).
WAN_NEGATIVE = (
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，"
    "低质量，JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，"
    "毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model's own settings, used for whatever a request omits.

    flow_shift       ((up to this many pixels, shift), ...) in ascending order; the last holds above
    max_pixels_seen, max_frames_seen  largest shape the weights were trained on
    """

    width: int
    height: int
    num_frames: int
    fps: int
    num_inference_steps: int
    guidance_scale: float
    flow_shift: tuple[tuple[int, float], ...]
    scheduler: Literal["unipc", "euler"]
    negative_prompt: str
    max_pixels_seen: int
    max_frames_seen: int
    guidance_scale_2: float | None = None
    boundary_ratio: float | None = None
    strength: float = 0.8
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    vae_dtype: Literal["float32", "bfloat16"] = "float32"

    def shift_for(self, width: int, height: int) -> float:
        """Return the flow shift for a size in pixels."""
        for limit, shift in self.flow_shift:
            if width * height <= limit:
                return shift
        return self.flow_shift[-1][1]


@dataclass(frozen=True, slots=True)
class SparseDefaults:
    """How a family's attention is made sparse, for whatever a request omits.

    query_block, key_block  tokens; see attention.Layout
    sub_block, score        how blocks are judged; see attention.TopK
    min_tokens              shorter clips stay dense: sparsity would cost more than it saves
    dense_steps             share of the schedule, from pure noise on, that stays dense, 0..1
    dense_layers            layers that stay dense
    sink_frames             latent frames at the start that all read, where the start is given
    own_budgets             use the densities per head in the model's folder, if there are any
    """

    query_block: int = 128
    key_block: int = 64
    sub_block: int = 16
    score: Score = "subblock"
    min_tokens: int = 8192
    density: float = 0.125
    compensate: Compensate = "mean"
    dense_steps: float = 0.2
    dense_layers: tuple[int, ...] = (0,)
    sink_frames: int = 1
    own_budgets: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    transformer      class name in diffusers
    pipelines        (task, diffusers pipeline class) in the order of preference
    vae_spatial      pixels per latent in rows and columns
    vae_temporal     frames per latent frame after the first
    patch            latent frames, rows, columns per token
    text_length      tokens of the prompt that the model reads
    experts          1, or 2 for a high-noise and a low-noise transformer
    image_encoder    a CLIP vision tower conditions on the first image
    token_times      every token has its own timestep, so any latent frames can be pinned clean
    """

    name: str
    title: str
    transformer: str
    pipelines: tuple[tuple[Task, str], ...]
    vae_spatial: int
    vae_temporal: int
    patch: tuple[int, int, int]
    text_length: int
    recipe: Recipe
    experts: int = 1
    image_encoder: bool = False
    token_times: bool = False
    sparse: SparseDefaults = SparseDefaults()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks this family does."""
        return tuple(task for task, _ in self.pipelines)

    def pipeline(self, task: Task) -> str:
        """Return the diffusers pipeline class for a task."""
        return dict(self.pipelines)[task]

    @property
    def size_multiple(self) -> tuple[int, int]:
        """Width and height must be multiples of these, in pixels."""
        return self.vae_spatial * self.patch[2], self.vae_spatial * self.patch[1]

    def latent_frames(self, num_frames: int) -> int:
        """Return the number of latent frames of a legal frame count."""
        return (num_frames - 1) // self.vae_temporal + 1


_480P = 832 * 480
_720P = 1280 * 720
_VACE_TASKS: tuple[Task, ...] = ("vace", "t2v", "i2v", "flf2v", "last", "prefix")
_T2V = "WanPipeline"
_I2V = "WanImageToVideoPipeline"


def _wan21(*, steps: int, shift: tuple[tuple[int, float], ...], size: tuple[int, int]) -> Recipe:
    """The defaults of Wan2.1's own generate.py (Wan-Video/Wan2.1)."""
    return Recipe(
        width=size[0],
        height=size[1],
        num_frames=81,
        fps=16,
        num_inference_steps=steps,
        guidance_scale=5.0,
        flow_shift=shift,
        scheduler="unipc",
        negative_prompt=WAN_NEGATIVE,
        max_pixels_seen=_720P,
        max_frames_seen=81,
    )


def _wan22(*, steps: int, guidance: tuple[float, float], shift: float, boundary: float) -> Recipe:
    return Recipe(
        width=1280,
        height=720,
        num_frames=81,
        fps=16,
        num_inference_steps=steps,
        guidance_scale=guidance[0],
        guidance_scale_2=guidance[1],
        flow_shift=((_720P, shift),),
        boundary_ratio=boundary,
        scheduler="unipc",
        negative_prompt=WAN_NEGATIVE,
        max_pixels_seen=_720P,
        max_frames_seen=81,
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        name="toyworld",
        title="toyworld (bundled toy model)",
        transformer="WanTransformer3DModel",
        pipelines=(("t2v", _T2V), ("i2v", _I2V), ("flf2v", _I2V), ("last", _I2V), ("prefix", _I2V)),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=32,
        token_times=True,
        sparse=SparseDefaults(
            query_block=16,
            key_block=16,
            sub_block=4,
            score="mass",
            min_tokens=0,
            sink_frames=0,
            own_budgets=False,  # no gain in whole clips: docs/results.md
        ),
        recipe=Recipe(
            width=96,
            height=96,
            num_frames=17,
            fps=16,
            num_inference_steps=20,
            guidance_scale=3.0,
            flow_shift=((192 * 192, 3.0),),
            scheduler="euler",
            negative_prompt="",
            max_pixels_seen=192 * 192,
            max_frames_seen=81,
            dtype="float32",
        ),
    ),
    Family(
        name="wan2.1-t2v",
        title="Wan 2.1 text to video",
        transformer="WanTransformer3DModel",
        pipelines=(("t2v", _T2V), ("v2v", "WanVideoToVideoPipeline")),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        recipe=_wan21(steps=50, shift=((_720P, 5.0),), size=(832, 480)),
    ),
    Family(
        name="wan2.1-i2v",
        title="Wan 2.1 image to video",
        transformer="WanTransformer3DModel",
        pipelines=(("i2v", _I2V),),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        image_encoder=True,
        recipe=_wan21(steps=40, shift=((_480P, 3.0), (_720P, 5.0)), size=(832, 480)),
    ),
    Family(
        name="wan2.1-flf2v",
        title="Wan 2.1 first and last frame to video",
        transformer="WanTransformer3DModel",
        pipelines=(("flf2v", _I2V),),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        image_encoder=True,
        recipe=_wan21(steps=50, shift=((_720P, 16.0),), size=(1280, 720)),
    ),
    Family(
        name="wan2.1-vace",
        title="Wan 2.1 VACE",
        transformer="WanVACETransformer3DModel",
        pipelines=tuple((task, "WanVACEPipeline") for task in _VACE_TASKS),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        recipe=_wan21(steps=50, shift=((_720P, 16.0),), size=(832, 480)),
    ),
    Family(
        name="wan2.2-t2v-a14b",
        title="Wan 2.2 A14B text to video (two experts)",
        transformer="WanTransformer3DModel",
        pipelines=(("t2v", _T2V),),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        experts=2,
        recipe=_wan22(steps=40, guidance=(4.0, 3.0), shift=12.0, boundary=0.875),
    ),
    Family(
        name="wan2.2-i2v-a14b",
        title="Wan 2.2 A14B image to video (two experts)",
        transformer="WanTransformer3DModel",
        pipelines=(("i2v", _I2V), ("flf2v", _I2V)),
        vae_spatial=8,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        experts=2,
        recipe=_wan22(steps=40, guidance=(3.5, 3.5), shift=5.0, boundary=0.9),
    ),
    Family(
        name="wan2.2-ti2v",
        title="Wan 2.2 TI2V (text and image to video)",
        transformer="WanTransformer3DModel",
        pipelines=(("t2v", _T2V), ("i2v", _I2V), ("flf2v", _I2V), ("last", _I2V), ("prefix", _I2V)),
        vae_spatial=16,
        vae_temporal=4,
        patch=(1, 2, 2),
        text_length=512,
        token_times=True,
        recipe=Recipe(
            width=1280,
            height=704,
            num_frames=121,
            fps=24,
            num_inference_steps=50,
            guidance_scale=5.0,
            flow_shift=((_720P, 5.0),),
            scheduler="unipc",
            negative_prompt=WAN_NEGATIVE,
            max_pixels_seen=1280 * 704,
            max_frames_seen=121,
        ),
    ),
)


def family(name: str) -> Family:
    """Return the family row of that name; the name comes from a model row, never from a user."""
    return {row.name: row for row in FAMILIES}[name]
