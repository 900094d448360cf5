"""Pages: the studio's one document, its way from page to page, and what is on each."""

import json
from dataclasses import asdict
from html import escape

import gradio as gr

from chaining.drift.thresholds import SLOPES
from chaining.story import Story
from demos.ui import assets
from demos.ui.cards import html
from demos.ui.create import Create, build
from demos.ui.form import own_form
from demos.ui.gate import PATH

# Address, name and element of each page beside the form's; the browser draws them itself.
PAGES = (
    ("storyboard", "Storyboard"),
    ("queue", "Queue"),
    ("library", "Library"),
    ("compare", "Compare"),
    ("system", "System"),
)


def head(create: Create, address: str) -> str:
    """Return what the document loads: the studio's own style and modules, and what they are told.

    address  of the server, for people
    """
    told = {
        "server": address,
        "pages": ["create", *(name for name, _ in PAGES)],
        "form": own_form(create.entries),
    }
    shown = ",".join(f'html[data-page="{name}"] #page-{name}' for name, _ in PAGES)
    return (
        f'<meta name="vidgen" content="{escape(json.dumps(told))}">'
        f"<style>{shown}{{display:block!important}}</style>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{PATH}/web/icon.svg" type="image/svg+xml">'
        f'<link rel="stylesheet" href="{PATH}/web/studio.css?{assets.version()}">'
        f'<link rel="stylesheet" href="{PATH}/web/pages.css?{assets.version()}">'
        f'<script type="module" src="{PATH}/web/main.js?{assets.version()}"></script>'
    )


def make_blocks(create: Create) -> gr.Blocks:
    """Return the document."""
    limits = {name: asdict(limit) for name, limit in SLOPES.items()}
    schema = Story.model_json_schema()
    told = {
        "storyboard": f'schema="{escape(json.dumps(schema))}" limits="{escape(json.dumps(limits))}"'
    }
    blocks: gr.Blocks = gr.Blocks(
        title="Vidgen", analytics_enabled=False, delete_cache=(3600, 3600)
    )
    with blocks:
        html(_top(), elem_id="top")
        with gr.Column(elem_id="page-create", elem_classes=["vg-page"]):
            build(create)
        for name, _ in PAGES:
            html(
                f'<vidgen-{name} class="vg-own" {told.get(name, "")}></vidgen-{name}>',
                elem_id=f"page-{name}", elem_classes=["vg-page"],
            )  # fmt: skip
    return blocks


def _top() -> str:
    links = "".join(
        f'<a href="#{name}" data-vg-page="{name}">{title}</a>'
        for name, title in (("create", "Create"), *PAGES)
    )
    return (
        f'<header class="vg-top"><a class="vg-brand" href="#create">Vidgen</a>'
        f'<nav aria-label="Pages">{links}</nav><vidgen-strip></vidgen-strip></header>'
    )
