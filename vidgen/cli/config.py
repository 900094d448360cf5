"""`vidgen config`: the defaults in force and where each comes from; setting the user's own."""

import dataclasses
import re
from typing import Annotated, Any

from cyclopts import App, Parameter

from vidgen.cli.naming import DEFAULT_TEMPLATE, check_template
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.place import CUDA, home_of, settings_of
from vidgen.cli.report import Reporter, table
from vidgen.errors import BadRequest, VidgenError
from vidgen.models import DEFAULT_MODEL, resolve
from vidgen.request import fields
from vidgen.request_names import explain
from vidgen.settings import OWN, PREFIX, PROJECT_FILE, Setting, Settings, write_setting

config = App(name="config", help="Show and set defaults, and where each comes from.")


@config.command
@flowing
def show(
    *,
    origin: Annotated[
        bool, Parameter(help="Say where each value comes from.", show_default=False)
    ] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Show the settings in force without any flag.

    Above them stand flags; a value that no layer gives is the request's default, or, where that is
    left open, the model's own recipe.
    """
    rows = _rows(settings_of(common, {}))
    text = table(
        ("SETTING", "VALUE", "ORIGIN") if origin else ("SETTING", "VALUE"),
        [tuple(row.values()) if origin else (row["setting"], row["value"]) for row in rows],
    )
    data = {row["setting"]: row if origin else row["value"] for row in rows}
    Reporter(common).answer({"settings": data}, text)


def _rows(settings: Settings) -> list[dict[str, str]]:
    defaults = {
        name: str(info.default)
        for name, info in fields().items()
        if not info.is_required() and info.default is not None and info.default != ()
    }
    defaults |= {"device": "auto", "offline": "False", "name_template": DEFAULT_TEMPLATE}
    model, recipe = _recipe_of(settings)
    rows = []
    for name in (*OWN, *fields()):
        found = settings.values.get(name)
        if found is not None:
            value, origin = str(found.value), found.origin
        elif name in defaults:
            value, origin = defaults[name], "default"
        elif name in recipe:
            value, origin = recipe[name], f"recipe of {model}"
        else:
            value, origin = "", "not set"
        rows.append({"setting": name, "value": value, "origin": origin})
    return rows


def _recipe_of(settings: Settings) -> tuple[str, dict[str, str]]:
    """Return the model in force and its own settings; none while the model is not to be found."""
    found = settings.values.get("model")
    name = DEFAULT_MODEL if found is None else str(found.value)
    try:
        model = resolve(name)
    except VidgenError:
        return name, {}
    row = dataclasses.replace(model.family.recipe, **model.recipe_changes)
    values = dataclasses.asdict(row) | {"flow_shift": row.shift_for(row.width, row.height)}
    return name, {key: str(value) for key, value in values.items() if value is not None}


@config.command
def path(*, common: CommonOf = Common()) -> None:  # noqa: B008 - frozen
    """Show the files that are read, the strongest first, and the environment's prefix."""
    home = home_of(common)
    files = [PROJECT_FILE, str(home.settings)]
    if common.config is not None:
        files.insert(0, str(common.config))
    data = {"home": str(home.root), "files": files, "environment": f"{PREFIX}*"}
    lines = [f"home         {home.root}", f"environment  {PREFIX}<SETTING>"]
    Reporter(common).answer(data, "\n".join(lines + [f"file         {name}" for name in files]))


@config.command(name="set")
def set_value(
    name: Annotated[str, Parameter(help="A field of the request or a setting of the program.")],
    value: Annotated[str, Parameter(help="Its value.", allow_leading_hyphen=True)],
    /,
    *,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Set a default in the user's settings file; other lines of the file stay as they are."""
    home = home_of(common)
    setting = _checked(name, value)
    write_setting(home.settings, setting, value)
    Reporter(common).answer(
        {"setting": setting, "value": value, "file": str(home.settings)},
        f"{setting} = {value}  ({home.settings})",
    )


def _check_own(name: str, value: str) -> None:
    """Refuse a value that every later command would refuse."""
    if name == "offline":
        Settings({name: Setting(value, "the command line")}).switch(name)
    elif name == "name_template":
        check_template(value)
    elif value not in ("auto", "cpu") and re.fullmatch(CUDA, value) is None:
        raise BadRequest(f"device={value!r} must be auto, cpu, cuda or cuda:1.", field=name)


def _checked(name: str, value: str) -> str:
    """Return the canonical name of a setting whose value is legal.

    Raises  BadRequest
    """
    from pydantic import ValidationError

    from vidgen.request import VideoRequest, canonical_names

    key = name.replace("-", "_")
    if key in OWN:
        _check_own(key, value)
        return key
    try:
        data: dict[str, Any] = canonical_names({key: value})
    except ValueError as error:
        raise BadRequest(f"{error}.", field=name) from None
    if len(data) != 1:
        raise BadRequest(f"{name} sets {' and '.join(data)}; set them one by one.", field=name)
    canonical = next(iter(data))
    entry = [value] if fields()[canonical].default == () else data[canonical]
    try:
        VideoRequest.__pydantic_validator__.validate_assignment(
            VideoRequest.model_construct(prompt="-"), canonical, entry
        )
    except ValidationError as error:
        found = [item for item in error.errors() if item["loc"][:1] == (canonical,)]
        if found:
            raise explain(error) from None
    return canonical
