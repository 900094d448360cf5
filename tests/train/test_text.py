"""Text: tokens of the grammar, unknown words, zero rows where there is padding."""

import torch

from benchmarks.train.text import MAX_LENGTH, build_text_encoder, build_tokenizer, embed, tokenize


def test_words_of_the_grammar_are_known_and_others_are_not() -> None:
    tokenizer = build_tokenizer()
    ids, mask = tokenize(tokenizer, ["a Big RED ball", "a zeppelin", ""])
    assert ids.shape == (3, MAX_LENGTH)
    assert 2 not in ids[0].tolist()
    assert ids[1].tolist().count(2) == 1
    assert mask.sum(dim=1).tolist() == [5, 3, 1]


def test_padding_embeds_to_zero() -> None:
    tokenizer, encoder = build_tokenizer(), build_text_encoder().eval()
    with torch.no_grad():
        states = embed(encoder, *tokenize(tokenizer, ["a red ball"]))
    assert states[0, 4:].abs().max() == 0
    assert states[0, :4].abs().min() > 0
