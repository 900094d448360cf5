"""The page: it stands alone, says the verdict first, and shows every part."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chaining.drift.compare import compare
from chaining.drift_report import Measured, write_html
from tests.drift_report.conftest import chain
from vidgen.errors import BadRequest, Unsupported

_VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects what a page refers to, its tags and its text, and checks that tags close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k.endswith(("href", "src", "data", "action"))]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _stands_alone(text: str) -> Page:
    page = Page(text)
    assert page.open == []
    assert page.links
    assert all(link.startswith(("data:image/", "#")) for link in page.links)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    return page


def test_a_page_stands_alone_and_says_the_verdict_first(drifting: Measured, tmp_path: Path) -> None:
    write_html(tmp_path / "r.html", drifting)
    text = (tmp_path / "r.html").read_text()
    page = _stands_alone(text)
    assert page.tags.count("svg") == 4
    assert page.tags.count("img") == 2
    assert page.text.index("It drifts") < page.text.index("gets darker by 3.0")
    assert page.text.index("gets darker") < page.text.index("Black after about")
    assert page.text.index("Black after about") < page.text.index("95 % interval")
    assert "<b>dark & co.mkv" in page.text  # escaped in the source, so that it is text
    assert "A note." in page.text
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"(fill|stroke): #(?!000000|ffffff)", text)  # plots follow the page
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_two_runs_are_laid_over_each_other(
    drifting: Measured, steady: Measured, tmp_path: Path
) -> None:
    found = compare(steady.features, drifting.features)
    write_html(tmp_path / "ab.html", steady, drifting, comparison=found)
    page = _stands_alone((tmp_path / "ab.html").read_text())
    assert page.tags.count("svg") == 4
    assert page.tags.count("img") == 4
    assert "One drifts away from the other." in page.text
    assert "on average" in page.text
    assert page.text.count("steady.mkv") > 3


def test_one_clip_and_no_pictures_make_a_page(tmp_path: Path) -> None:
    one = chain("none", 1, 6)
    bare = Measured("one", one.drift, one.features)
    write_html(tmp_path / "one.html", bare)
    page = _stands_alone((tmp_path / "one.html").read_text())
    assert "img" not in page.tags
    assert "It cannot be told yet" in page.text


@pytest.mark.slow
def test_forty_clips_make_a_page_of_a_few_megabytes(tmp_path: Path) -> None:
    write_html(tmp_path / "long.html", chain("gain=0.99", 40, 8))
    assert (tmp_path / "long.html").stat().st_size < 6e6
    _stands_alone((tmp_path / "long.html").read_text())


def test_without_matplotlib_one_sentence_says_so(
    steady: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Unsupported, match="needs matplotlib"):
        write_html(tmp_path / "r.html", steady)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_replaced_by_a_page(steady: Measured, tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    with pytest.raises(BadRequest):
        write_html(tmp_path / "r.html", steady)
