"""The sizes of toyworld's parts, as its folder's config.json files have them."""

TOY_DIT = {
    "num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 6, "ffn_dim": 512,
    "text_dim": 64, "freq_dim": 128, "in_channels": 16, "out_channels": 16,
}  # fmt: skip
TOY_VAE = {
    "base_dim": 16, "dim_mult": [1, 2, 4], "num_res_blocks": 1,
    "temperal_downsample": [True, True], "z_dim": 16, "patch_size": 2, "in_channels": 12,
    "out_channels": 12, "latents_mean": [0.0] * 16, "latents_std": [1.0] * 16,
}  # fmt: skip
TOY_TEXT = {
    "d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16, "d_ff": 256, "vocab_size": 64,
    "feed_forward_proj": "gated-gelu",
}  # fmt: skip
