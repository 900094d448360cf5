"""`vidgen budgets`: measure how a mean density is best divided among a model's heads."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from attention import Dense, TopK
from vidgen.attention_plan import AttentionPlan
from vidgen.budgets import Recall, divide, load_budgets, save_budgets
from vidgen.cli.batch_items import read_prompts
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Maker
from vidgen.cli.options import (
    Common,
    CommonOf,
    FlagsOf,
    RequestFlags,
    Running,
    RunningOf,
    flags_given,
    flowing,
)
from vidgen.cli.place import find_device, home_of, settings_of
from vidgen.cli.report import Reporter, table
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest
from vidgen.events import Progress
from vidgen.media.disk import check_folder
from vidgen.plan import Plan, plan
from vidgen.request import aliases_of, fields, parse_request

# What is ranked, whatever the configuration says of attention.
_RANKED = {"attention": "topk", "min_tokens": 0, "budgets": "uniform", "preview": "off"}
# Of a request: how many clips it makes, and what acts on a sparse run alone. No measurement does
# either; of the attention options the blocks and the sink frames count.
_UNHEARD = tuple(
    word
    for name in ("n", "attention", "attention_backend", "density", "dense_steps", "dense_layers",
                 "compensate", "budgets", "top_p", "min_tokens")
    for word in (name, *aliases_of(fields()[name]))
)  # fmt: skip


@flowing
def budgets(
    prompts: Annotated[Path, Parameter(help="Prompts to measure with: .txt, .jsonl or .csv.")],
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The budgets file to write.")] = Path(
        "budgets.json"
    ),
    every: Annotated[int, Parameter(help="Look at every n-th forward of the transformer.")] = 5,
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Measure how a mean density is best divided among a model's heads.

    Every prompt is run dense, once, at the size and length that are asked for; on the way each
    head's attention is ranked as top-K would rank it. All prompts need the same model, blocks and
    sink frames. The file says how much of it the best blocks
    hold at each density, and --budgets FILE has a request divide its density by that. Sizes that
    are already in the file stay there.
    """
    if every < 1:
        raise BadRequest(f"--every {every} looks at no forward; use 1 or more.")
    _refuse_unheard("vidgen budgets", flags_given(flags))
    settings = settings_of(common, flags_given(flags) | running.given())
    home, reporter = home_of(common), Reporter(common)
    device = find_device(settings, home, only_planning=False)
    check_folder(out.absolute().parent)
    before = load_budgets(out) if out.exists() else []
    plans = _plans(prompts, settings.request(), device.profile)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=settings.switch("offline"))
        found, looks = _measured(maker, plans, every, reporter)
    save_budgets(out, [*(entry for entry in before if not _same(entry, found)), *found])
    rows = []
    for entry in found:
        heads = [density for row in divide(entry, 0.125) for density in row]
        seen = str(looks[entry.grid])
        rows.append((entry.grid, seen, str(len(heads)), f"{min(heads):.3f}", f"{max(heads):.3f}"))
    head = ("GRID", "FORWARDS SEEN", "HEADS", "LEAST AT 0.125", "MOST")
    reporter.answer(
        {
            "event": "result",
            "path": str(out),
            "grids": [row[0] for row in rows],
            "forwards_seen": looks,
        },
        f"{table(head, rows)}\n{out}",
    )


def _refuse_unheard(where: str, given: Mapping[str, Any]) -> None:
    """Raise for what a measurement does not follow from: it is dense, a clip a prompt."""
    found = next((name for name in given if name in _UNHEARD), None)
    if found is not None:
        raise BadRequest(
            f"{where} has {found}={given[found]}, which the measuring of budgets does not follow "
            "from; leave it out, and give it to the clips that use the budgets.",
            field=found,
        )


def _plans(prompts: Path, given: dict[str, Any], device: DeviceProfile) -> list[tuple[Plan, Plan]]:
    """Return each prompt's dense plan, and the plan whose ranking is measured."""
    made: list[tuple[Plan, Plan]] = []
    for where, own in read_prompts(prompts):
        _refuse_unheard(where, own)
        data = {name: value for name, value in given.items() if name not in _UNHEARD}
        sparse = plan(parse_request({**data, **own, **_RANKED}), device)
        if made:
            _refuse_another(where, _measured_as(sparse), _measured_as(made[0][1]))
        dense = AttentionPlan(Dense(), "sdpa", "measured dense")
        made.append((dataclasses.replace(sparse, attention=dense), sparse))
    return made


def _measured_as(sparse: Plan) -> dict[str, Any]:
    """Return what a measurement follows from, but for the size, which has an entry of its own."""
    attention = sparse.attention
    assert isinstance(attention.pattern, TopK)
    return {
        "model": sparse.model.name,
        "query_block": attention.query_block,
        "key_block": attention.key_block,
        "sink_frames": attention.sink_frames,
    }


def _refuse_another(where: str, found: dict[str, Any], first: dict[str, Any]) -> None:
    """Raise if a prompt would be measured as another one under the first one's name."""
    for name, value in found.items():
        if value != first[name]:
            raise BadRequest(
                f"{where} has {name}={value} and the first prompt {first[name]}; they "
                "cannot be measured as one, so measure them one after the other.",
                field=name,
            )


def _measured(
    maker: Maker, plans: list[tuple[Plan, Plan]], every: int, reporter: Reporter
) -> tuple[list[Recall], dict[str, int]]:
    """Run every prompt dense.

    Returns  what its heads' best blocks held, an entry for each grid; and how many forwards of the
             transformer were looked at on each
    """
    from vidgen.recall import RecallSession

    session: RecallSession | None = None
    weights = ""
    for number, (dense, sparse) in enumerate(plans, start=1):
        engine = maker.engine(dense)
        weights = engine.weights
        session = session or RecallSession(sparse.attention, every)

        def listen(event: Any, number: int = number) -> None:
            if isinstance(event, Progress):
                reporter.progress(event, number, len(plans))

        with session.attached(*engine.components.transformers):
            maker.denoise_only(dense, listen)
    assert session is not None
    return session.recalls(plans[0][0].model.name, weights), session.looks()


def _same(entry: Recall, found: list[Recall]) -> bool:
    return any(
        (entry.model, entry.grid, entry.query_block, entry.key_block)
        == (other.model, other.grid, other.query_block, other.key_block)
        for other in found
    )
