"""Cards: what the form says in HTML; every text of a user or a file is escaped here."""

from collections.abc import Mapping
from html import escape
from typing import Any

import gradio as gr

from demos.ui.snippets import command_line, curl, python


def html(text: str, **more: Any) -> gr.HTML:
    """Return a piece of the page that has the studio's style and not Gradio's for texts."""
    return gr.HTML(text, js_on_load=None, apply_default_css=False, **more)


def preflight(found: Mapping[str, Any], count: int) -> str:
    """Return the card that says, before it is made, what a request becomes and costs.

    found  the answer of /v1/videos/estimate
    count  clips that are asked for
    """
    cost = found["estimate"]
    facts = [
        ("Clip", escape(f"{found['width']}×{found['height']}, {found['num_frames']} frames = "
                        f"{found['seconds']:.3g} s at {found['fps']} fps")),
        ("Time", _range("seconds", cost["seconds"]) + (f" × {count}" if count > 1 else "")),
        ("Memory", _range("bytes", cost["device_bytes"])),
        ("Disk", _range("bytes", cost["disk_bytes"], count) + (" in all" if count > 1 else "")),
        ("Tokens", escape(f"{found['tokens']:,} a forward, prompt {found['prompt_tokens']}")),
        ("Attention", escape(f"{found['attention']} by {found['attention_backend']}")),
        ("Fidelity", escape(str(found["fidelity"]))),
    ]  # fmt: skip
    rows = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts)
    notes = [*_adjusted(found["adjustments"]), *(_note(text) for text in found["warnings"])]
    listed = f'<ul class="vg-notes">{"".join(notes)}</ul>' if notes else ""
    return (
        f'<section class="vg-card vg-preflight" aria-label="Before you press"><dl>{rows}</dl>'
        f"{listed}</section>"
    )


def _adjusted(items: list[Mapping[str, Any]]) -> list[str]:
    return [
        f'<li class="vg-adjusted"><b>{escape(str(item["field"]))}</b> '
        f"{escape(str(item['asked']))} → {escape(str(item['used']))}: {escape(str(item['why']))}"
        "</li>"
        for item in items
    ]


def _note(text: str) -> str:
    return f"<li>{escape(text)}</li>"


def _range(unit: str, pair: Mapping[str, float], times: int = 1) -> str:
    """Return the element that says from where to where; units are the browser's."""
    low, high = (times * float(pair[end]) for end in ("low", "high"))
    return f'<vidgen-range unit="{unit}" low="{low!r}" high="{high!r}"></vidgen-range>'


def idle(text: str) -> str:
    """Return the card for a form that says nothing yet."""
    return f'<section class="vg-card vg-preflight vg-quiet">{escape(text)}</section>'


def problem(text: str) -> str:
    """Return a refusal, in the words of the server."""
    return f'<p class="vg-problem" role="alert">{escape(text)}</p>'


def note(text: str) -> str:
    """Return a line that says what was done."""
    return f'<p class="vg-note" role="status">{escape(text)}</p>' if text else ""


def snippets(request: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    """Return the three ways of asking for the same clip elsewhere, each with a button to copy."""
    if not request.get("prompt"):
        return '<p class="vg-quiet">Write a prompt first.</p>'
    parts = (
        ("CLI", command_line(request, address)),
        ("curl", curl(request, address, keyed=keyed)),
        ("Python", python(request, address, keyed=keyed)),
    )
    drawn = "" if "seed" in request else (
        '<p class="vg-quiet">No seed is set: each run draws its own.</p>')  # fmt: skip
    return drawn + "".join(_snippet(name, text) for name, text in parts)


def _snippet(name: str, text: str) -> str:
    return (
        f'<figure class="vg-code"><figcaption>{name}<button type="button" class="vg-button" '
        f'data-vg-copy="{name}">Copy</button></figcaption>'
        f'<pre tabindex="0" aria-label="{name}"><code>{escape(text)}</code></pre></figure>'
    )
