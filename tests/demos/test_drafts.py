"""What is typed is not lost: a reload, a new tab and a server that starts again give it back."""

from typing import Any

import pytest

from tests.demos.site import Site, eventually
from tests.demos.test_create import box, filled

pytestmark = pytest.mark.slow
FILLED = "document.querySelector('#field-prompt textarea')?.value === %r"
FIELDS = {"prompt": "a ball that\nis long", "negative_prompt": "fog", "seed": str(2**62 + 1)}
LEFT = "The form is as you left it"
LEFT_FILES = f"{LEFT}, but pictures and other files have to be dropped again."
OTHER_PAGE = "ui/web/icon.svg"
SHOTS = "[...document.querySelectorAll('#page-storyboard .vg-shot textarea')].map(t => t.value)"


def unfold(page: Any) -> None:
    """Open what is folded, which is drawn only then."""
    for fold in ("advanced", "group-sampling", "group-model"):
        page.click(f"#{fold} button >> nth=0")


def fill(page: Any) -> None:
    """Type texts, a number, lines, and choose."""
    for name, text in FIELDS.items():
        box(page, name).fill(text)
    unfold(page)
    box(page, "num_inference_steps").fill("3")
    box(page, "loras").fill("one:0.5\ntwo")
    page.check("#field-aspect input[value='4:3']")
    page.evaluate(
        "document.querySelector('vidgen-drop[field=image]').put('upload:file_0000000000')"
    )


def check(page: Any) -> None:
    """Look whether all but the file is there."""
    page.wait_for_function(FILLED % FIELDS["prompt"])
    filled(page)
    assert {name: box(page, name).input_value() for name in FIELDS} == FIELDS
    unfold(page)
    assert box(page, "num_inference_steps").input_value() == "3"
    assert box(page, "loras").input_value() == "one:0.5\ntwo"
    assert page.is_checked("#field-aspect input[value='4:3']")
    assert box(page, "image").input_value() == ""
    assert page.inner_text("#create-said") == LEFT_FILES


def test_what_is_typed_is_there_after_a_reload_and_in_a_new_tab(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    fill(page)
    page.reload()
    check(page)
    other = page.context.new_page()
    page.close()
    other.goto(f"{fake_site.address}/ui/")
    check(other)
    other.click("#afresh")
    other.click("dialog >> text=Empty the form")
    other.wait_for_function(FILLED % "")
    other.reload()
    filled(other)
    assert box(other, "prompt").input_value() == ""
    assert not other.is_checked("#field-aspect input[value='4:3']")


def test_what_is_typed_outlives_the_server(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    box(page, "prompt").fill("typed before")
    page.wait_for_selector(".vg-preflight dl")
    fake_site.kill("api")
    page.wait_for_selector("vidgen-strip .vg-failed")
    with page.expect_event("requestfailed", lambda request: "app_id" in request.url):
        box(page, "prompt").fill("typed when it was away")
    # Gradio has noticed: from now on its own events are off.
    box(page, "prompt").fill("typed while it was away")
    page.check("#field-aspect input[value='1:1']")
    box(page, "model").click()
    page.click("#field-model [role=option] >> nth=-1")  # without an event of its own
    model = box(page, "model").input_value()
    assert model != "toyworld"
    page.evaluate("window.before = true")
    fake_site.start()
    page.wait_for_function("!window.before")  # Gradio loads the page again by itself
    page.wait_for_function(FILLED % "typed while it was away")
    assert page.is_checked("#field-aspect input[value='1:1']")
    assert box(page, "model").input_value() == model
    filled(page)  # until then Gradio's clock stands there
    assert page.inner_text("#create-said") == f"{LEFT}."
    assert page.faults == []


def test_what_another_page_asked_for_comes_before_what_was_typed(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    box(page, "prompt").fill("typed")
    page.add_init_script(
        """const asked = setInterval(() => { if (!window.vidgen) return; clearInterval(asked);
        window.vidgen.send({ action: 'fields', fields: { prompt: 'asked' }, said: '' }); }, 1);"""
    )
    page.reload()
    assert "“typed”" in page.inner_text("dialog p")  # it was there before
    page.click("dialog >> text=Replace it")
    page.wait_for_function(FILLED % "asked")
    filled(page)
    assert box(page, "prompt").input_value() == "asked"


def test_a_browser_that_remembers_nothing_and_a_broken_memory_do_no_harm(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    box(page, "prompt").fill("kept")
    page.goto(f"{fake_site.address}/{OTHER_PAGE}")  # the form is left
    page.evaluate(
        """for (const kept of [localStorage, sessionStorage])
        for (const name of Object.keys(kept)) if (name.endsWith(' form'))
        kept.setItem(name, JSON.stringify({ edited: 7, known: 'x', fields:
          { prompt: 'read', preset: 'none such', seed: 7, gone: 'x', strict: 'yes' } }));"""
    )
    page.goto(f"{fake_site.address}/ui/")
    page.wait_for_function(FILLED % "read")
    page.wait_for_selector(".vg-preflight dl")
    assert box(page, "seed").input_value() == ""
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });"
    )
    page.reload()
    page.wait_for_selector("vidgen-strip .vg-fact")
    box(page, "prompt").fill("not kept")
    page.wait_for_selector(".vg-preflight dl")
    assert page.faults == []


def test_a_full_browser_gives_back_what_came_last(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    found = page.evaluate(
        """async () => { const { remember, remembered } = await import("/ui/web/store.js");
        const found = [], put = Storage.prototype.setItem;
        remember("a", [1]);
        Storage.prototype.setItem = () => { throw new DOMException("", "QuotaExceededError"); };
        remember("a", [2]);
        found.push(remembered("a"));
        Storage.prototype.setItem = put;
        remember("a", [3]);
        found.push(remembered("a"));
        for (const name of Object.keys(localStorage)) if (name.endsWith(" a"))
          localStorage.setItem(name, "[4]");
        found.push(remembered("a"));
        sessionStorage.clear();
        return [...found, remembered("a")]; }"""
    )
    assert found == [[2], [3], [3], [4]]  # another tab's is not this one's


def test_a_page_that_nobody_typed_in_since_writes_over_nothing(
    fake_site: Site, open_page: Any
) -> None:
    older = open_page(fake_site)
    filled(older)
    box(older, "prompt").fill("older")
    newer = older.context.new_page()
    newer.goto(f"{fake_site.address}/ui/")
    newer.wait_for_function(FILLED % "older")
    box(newer, "prompt").fill("newer")
    newer.wait_for_function("Object.values(localStorage).some(kept => kept.includes('newer'))")
    newer.close()
    older.evaluate("location.hash = 'storyboard'")
    older.fill("#page-storyboard .vg-shot textarea", "typed elsewhere")
    older.goto(f"{fake_site.address}/{OTHER_PAGE}")
    older.goto(f"{fake_site.address}/ui/")
    filled(older)
    assert box(older, "prompt").input_value() == "older"
    third = older.context.new_page()
    third.goto(f"{fake_site.address}/ui/")
    third.wait_for_function(FILLED % "newer")


def opened_by(person: str, context: Any, site: Site) -> Any:
    """Return a new page of a browser in which somebody has signed in last; empty: nobody."""
    context.clear_cookies()
    if person:
        sign = {"name": "vidgen_who", "value": person, "domain": "127.0.0.1", "path": "/ui"}
        context.add_cookies([sign])
    page = context.new_page()
    page.goto(f"{site.address}/ui/")
    filled(page)
    return page


def test_a_page_keeps_for_whoever_it_came_to(fake_site: Site, new_page: Any) -> None:
    context = new_page().context
    first = opened_by("one", context, fake_site)
    box(first, "prompt").fill("of one")
    second = opened_by("two", context, fake_site)
    assert box(second, "prompt").input_value() == ""
    box(second, "prompt").fill("of two")
    box(first, "prompt").fill("of one still")
    first.goto(f"{fake_site.address}/{OTHER_PAGE}")
    context.clear_cookies()  # signed out: the sign is gone before the page is
    second.goto(f"{fake_site.address}/{OTHER_PAGE}")
    for person, prompt in (("", ""), ("two", "of two"), ("one", "of one still")):
        page = opened_by(person, context, fake_site)
        assert box(page, "prompt").input_value() == prompt


def storyboard(page: Any) -> list[str]:
    """Return the texts of the cards."""
    page.wait_for_selector("#page-storyboard .vg-shot >> visible=true >> nth=0")
    found: list[str] = page.evaluate(SHOTS)
    return found


def test_a_draft_gives_way_only_when_it_is_said(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site, "storyboard")
    page.fill("#page-storyboard .vg-shot textarea", "my own")
    page.click("#page-storyboard >> text=New")
    said = page.inner_text("dialog p")
    assert "“my own”" in said
    page.keyboard.press("Enter")  # what is at hand loses nothing
    page.wait_for_selector("dialog", state="detached")
    assert storyboard(page) == ["my own"]
    page.evaluate("location.hash = 'create'")
    page.click("text=A story of four shots")
    page.click("dialog >> text=Cancel")
    page.evaluate("location.hash = 'storyboard'")
    assert storyboard(page) == ["my own"]
    page.evaluate("location.hash = 'create'")
    page.click("text=A story of four shots")
    page.click("dialog >> text=Replace it")
    page.wait_for_selector("#page-storyboard .vg-shot >> nth=3")
    page.click("#page-storyboard >> text=New")  # nobody wrote that: nothing is asked
    eventually(lambda: storyboard(page) == [""], "it stays")
    page.fill("#page-storyboard .vg-shot textarea", "rendered")
    page.click("#render-board")
    page.wait_for_selector("[data-card='0']")
    page.click("#page-storyboard >> text=New")
    eventually(lambda: storyboard(page) == [""], "it stays")
    assert page.locator("dialog").count() == 0
    assert page.faults == []


def test_what_is_written_in_a_card_stays_while_its_board_runs(
    fake_site: Site, open_page: Any
) -> None:
    shots = [{"prompt": f"shot {k}; steps=200 step=0.2 gate=77", "seconds": 1} for k in (0, 1)]
    board = fake_site.post("storyboards", {"shots": shots})["id"]
    page = open_page(fake_site, f"storyboard/{board}")
    page.fill("[data-card='1'] textarea", "written meanwhile")
    page.evaluate("document.activeElement.blur()")
    (fake_site.home / "gate-77").touch()
    page.wait_for_selector("[data-card='1'][data-state='made']")
    assert page.input_value("[data-card='1'] textarea") == "written meanwhile"
    assert page.is_visible("[data-card='1'] >> text=Changed: re-roll it")
    page.reload()
    page.wait_for_selector("[data-card='1'][data-state='made']")
    assert page.input_value("[data-card='1'] textarea") == "written meanwhile"
    page.click("[data-card='1'] >> text=/^Re-roll$/")
    page.wait_for_function(f"!location.hash.includes('{board}')")
    retold = page.evaluate("location.hash").split("/")[1]
    assert fake_site.get(f"storyboards/{retold}")["cards"][1]["prompt"] == "written meanwhile"
    fake_site.ended(retold)
    page.evaluate(f"location.hash = 'storyboard/{board}'")
    text = "document.querySelector('[data-card=\"1\"] textarea').value"
    page.wait_for_function(f"{text} === '{shots[1]['prompt']}'")


def test_what_is_written_in_other_cards_goes_along(fake_site: Site, open_page: Any) -> None:
    shots = [{"prompt": f"shot {k}; steps=1", "seconds": 1} for k in range(3)]
    board = fake_site.ended(fake_site.post("storyboards", {"shots": shots})["id"])["id"]
    page = open_page(fake_site, f"storyboard/{board}")
    for card in (0, 1, 2):
        page.fill(f"[data-card='{card}'] textarea", f"written in {card}; steps=1")
    for press, states in (
        ("[data-card='1'] >> text=/^Re-roll$/", ("made", "made", "stale")),
        ("#page-storyboard >> text=Render 1 stale card", ("made", "made", "made")),
    ):
        page.evaluate("document.querySelector('[data-card]').id = 'before'")
        page.click(press)
        page.wait_for_selector("#before", state="detached")
        board = page.evaluate("location.hash").split("/")[1]
        for card, state in enumerate(states):
            page.wait_for_selector(f"[data-card='{card}'][data-state='{state}']")
        for card in (0, 1, 2):
            text = page.input_value(f"[data-card='{card}'] textarea")
            assert text == f"written in {card}; steps=1"
            told = page.locator(f"[data-card='{card}'] >> text=Changed: re-roll it")
            assert told.is_visible() == (card != 1)
        made = fake_site.get(f"storyboards/{board}")["cards"]
        prompts = [shots[0]["prompt"], "written in 1; steps=1", shots[2]["prompt"]]
        assert [card["prompt"] for card in made] == prompts
    assert page.faults == []


def test_all_that_is_written_in_the_open_storyboard_is_kept(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    found = page.evaluate(
        """async () => { const { write, written } = await import("/ui/web/story_draft.js");
        for (const board of ["old", "open"]) for (let k = 0; k < 70; k++)
          write(board, k, { prompt: `${board} ${k}` });
        return ["old", "open"].map((board) => [...Array(70).keys()].filter((index) =>
          written(board, { index, prompt: "" }).prompt === `${board} ${index}`)); }"""
    )
    assert found == [list(range(10, 70)), list(range(70))]
