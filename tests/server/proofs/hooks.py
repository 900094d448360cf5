"""What schemathesis does around each request: it names what there is, and writes down what came.

It runs in a process of its own. STOCK is a file with a Stock as JSON, ANSWERS a file that gets a
line of JSON for each answer.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import schemathesis

from tests.server.proofs.stock import Stock

_TURNS: Counter[str] = Counter()
_STOCK = Stock(**json.loads(Path(os.environ["STOCK"]).read_text()))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put ids of what there is into the path, and now and then a body that is good."""
    name = context.operation.definition.raw["operationId"]
    _STOCK.place(name, case.path_parameters, _TURNS[name])
    case.body = _STOCK.body(name, case.body, _TURNS[name])
    if "Idempotency-Key" in case.headers and _TURNS[name] % 4:  # now and then one that was used
        case.headers["Idempotency-Key"] = f"{name}-{_TURNS[name]}"
    _TURNS[name] += 1


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Write down the status, and of the refusal of an object which field it names."""
    line = {
        "operation": context.operation.definition.raw["operationId"],
        "status": response.status_code,
    }
    if response.status_code in (400, 422) and isinstance(case.body, dict):
        error = response.json()["error"]
        line |= {"message": error["message"], "param": error["param"]}
    with Path(os.environ["ANSWERS"]).open("a") as file:
        file.write(json.dumps(line) + "\n")
