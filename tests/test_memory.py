"""The memory formulas against the tensors that are alive on the meta device."""

import dataclasses
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.counted import transformer_inputs, transformer_on_meta, vae_on_meta
from tests.test_estimate import H100, workload
from tests.test_flops import DITS, VAES
from vidgen import memory, vae_flops


class LiveBytes(TorchDispatchMode):
    """Adds up the storages that operations make, and notes the largest sum at one time."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {id(item) for item in self._storages((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for storage in self._storages(out):
            key = storage._cdata
            if key in self._known or id(storage) in given or key in given:
                continue
            self._known.add(key)
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._freed, key, storage.nbytes())
        return out

    def _storages(self, tree):
        tensors = (item for item in tree_leaves(tree) if isinstance(item, torch.Tensor))
        return [item.untyped_storage() for item in tensors]

    def _freed(self, key, size):
        self._known.discard(key)
        self.now -= size


@pytest.fixture
def _flash(monkeypatch):
    """Attention that keeps no scores, as on a GPU; meta tensors would take the plain path."""
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda query, *_args, **_options: torch.empty_like(query),
    )


@pytest.mark.usefixtures("_flash")
@pytest.mark.parametrize("name", VAES)
def test_vae(name):
    config = VAES[name]
    vae = vae_on_meta(config)
    latent = torch.empty(1, config["z_dim"], 3, 12, 20, device="meta")
    vae.clear_cache()
    with torch.no_grad(), LiveBytes() as decoding:
        hidden = vae.post_quant_conv(latent)
        for index in range(3):
            vae._conv_idx = [0]
            vae.decoder(
                hidden[:, :, index : index + 1],
                feat_cache=vae._feat_map,
                feat_idx=vae._conv_idx,
                first_chunk=index == 0,
            )
    assert 4 * vae_flops.vae_decode_values(config, 12, 20) == pytest.approx(decoding.peak, rel=0.05)
    side = config.get("scale_factor_spatial", 8)
    height, width = 12 * side, 20 * side
    video = torch.empty(1, 3, 9, height, width, device="meta")
    with torch.no_grad(), LiveBytes() as encoding:
        vae.encode(video)
    ours = 4 * (vae_flops.vae_encode_values(config, height, width) + video.numel())
    assert ours == pytest.approx(encoding.peak, rel=0.25)


@pytest.mark.usefixtures("_flash")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    "name", ["toyworld", "wan2.1-t2v-1.3b", "wan2.1-vace-1.3b", "wan2.2-ti2v-5b"]
)
def test_transformer(name, dtype):
    config = {**DITS[name], "num_layers": 4}
    if "vace_layers" in config:
        config["vace_layers"] = [0, 2]
    work = workload(name, dtype=dtype)
    configs = dataclasses.replace(work.configs, transformer=config)
    work = dataclasses.replace(
        work, configs=configs, grid=dataclasses.replace(work.grid, frames=5, rows=16, columns=24)
    )
    model = transformer_on_meta(config)
    number = getattr(torch, dtype)
    for key, weight in model.named_parameters():
        if not any(word in key.split(".") for word in model._keep_in_fp32_modules):
            weight.data = weight.data.to(number)
    inputs = transformer_inputs(
        config, (5, 32, 48), text=work.text_length, images=0, token_times=work.token_times
    )
    inputs = {
        key: value if key == "timestep" else value.to(number) for key, value in inputs.items()
    }
    with torch.no_grad(), LiveBytes() as running:
        model(**inputs)
    least, most = (share * memory.activations(work).denoise for share in memory.ACTIVATIONS)
    assert least <= running.peak <= most


def test_group_offload_holds_a_few_blocks():
    work = workload("wan2.1-t2v-14b", offload="group", text_encodes=0, frames=5, scale=4)
    blocks = memory.expert_bytes(work) / 40
    found = memory.device_bytes(work, H100)
    assert blocks < found.low < found.high < 12e9
