"""What a checkpoint remembers of its pipeline, to distinguish a changed file from a crash.

The plan is what a checkpoint depends on: a query that continues with another source, transform or sink would mix the
results of two pipelines. How fast and where it runs may change at any time.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

from rookery.client.spark.pipelines.spec import Pipeline

FREE_OF_A_SOURCE = ("start", "options")
"""A checkpoint has its own start; options change how fast a source is read."""
FREE_OF_A_SINK = ("options",)

Plan = dict[str, str]
"""Values by their place in the file."""


def plan_of(pipeline: Pipeline, code: str | None) -> Plan:
    """What must stay as it is; `code` is the text of a Python transform."""
    plan: Plan = {}
    for source in pipeline.sources:
        values = {key: value for key, value in _values(source).items() if key not in (*FREE_OF_A_SOURCE, "name")}
        plan |= _places(f"sources.{source.name}", values)
    sink = {key: value for key, value in _values(pipeline.sink).items() if key not in FREE_OF_A_SINK}
    plan |= _places("sink", sink)
    if pipeline.transform.sql:
        plan["transform.sql"] = " ".join(pipeline.transform.sql.split())
    if code is not None:
        plan["transform.python"] = f"{pipeline.transform.python} {hashlib.sha256(code.encode()).hexdigest()}"
    return plan


def _values(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


def _places(place: str, values: Mapping[str, Any]) -> Plan:
    plan: Plan = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(value):
            plan |= _places(f"{place}.{key}", _values(value))
        elif isinstance(value, Mapping):
            plan |= _places(f"{place}.{key}", value)
        elif value is not None and value != ():
            plan[f"{place}.{key}"] = ", ".join(value) if isinstance(value, tuple) else str(value)
    return plan


def changed(then: Plan, now: Plan) -> list[str]:
    """The places that differ."""
    return sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
