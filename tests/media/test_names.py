"""File names from any text."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidgen.media import safe_name

RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{a}{n}" for a in ("COM", "LPT") for n in range(1, 10))}


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=300), max_bytes=st.integers(8, 140))
def test_every_text_gives_a_name_that_every_system_takes(text: str, max_bytes: int) -> None:
    name = safe_name(text, max_bytes=max_bytes)
    assert 1 <= len(name.encode()) <= max_bytes
    assert name == unicodedata.normalize("NFC", name)
    assert not set(name) & set('/\\:*?"<>|\0\n\r\t ')
    assert name[0] not in ".-"
    assert name[-1] not in ". "
    assert name.split(".")[0].upper() not in RESERVED


def test_a_prompt_of_2000_characters_makes_a_file(tmp_path: Path) -> None:
    for prompt in ("a cat walks " * 170, "狗" * 2000, "👩‍👩‍👧 " * 250):
        name = safe_name(prompt)
        (tmp_path / f"{name}.mp4").write_bytes(b"")
    assert safe_name("a red fox, running") == "a_red_fox,_running"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "untitled"), ("...", "untitled"), ("../../etc/passwd", "etcpasswd"), ("-rf", "rf"),
        ("CON", "CON_"), ("e\u0301t\u00e9", "\u00e9t\u00e9"), ("a\0b\x07c", "abc"),
        ("\ud800x", "x"),
    ],
)  # fmt: skip
def test_traps(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_a_character_is_not_cut_from_its_marks() -> None:
    assert safe_name("abcdefgq\u0323", max_bytes=9) == "abcdefg"
    assert safe_name("abcdef\u2764\ufe0f", max_bytes=9) == "abcdef"
    assert safe_name("abcdefgq\u0323", max_bytes=10) == "abcdefgq\u0323"
