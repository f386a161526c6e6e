"""In which tensors' statistics are the values of a tensor to be found?

Calibration does not observe what only moves observed values; a node that is left float may make such a tensor
one that needs a range of its own.
"""

from __future__ import annotations

from collections.abc import Container

from ptq.nodes import Value, constant, name_of, row_name
from ptq.ops import OPS
from ptq.opspec import Output, Role


def seen_in(value: Value, observed: Container[str]) -> list[Value] | None:
    """The observed or constant tensors that hold all of its values; None where there are none such."""
    if constant(value) is not None or name_of(value) in observed:
        return [value]
    node = value.producer()
    spec = OPS.get(row_name(node)) if node is not None else None
    if node is None or spec is None or spec.output not in (Output.SAME_AS_INPUT, Output.ONE_GROUP):
        return None
    found: list[Value] = []
    for position, source in enumerate(node.inputs):
        if source is None or spec.role(position) not in (Role.ACTIVATION, Role.VALUE):
            continue
        sources = seen_in(source, observed)
        if sources is None:
            return None
        found += sources
    return found
