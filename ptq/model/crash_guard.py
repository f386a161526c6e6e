"""Which operands end the process in ONNX Runtime, where others raise an error?

Its kernels divide by them without a look: the processor's exception for integers takes the process with it. Found in
1.31.1. What other nodes compute is not known before they run; what the model holds or a sample brings is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, constant_of, name_of, operator_of

_Operands = Sequence[NDArray[Any] | None]


@dataclass(frozen=True, eq=False)
class CrashGuard:
    """The nodes of a model that read its inputs where some values of them end the process.

    Attributes:
        nodes: Each with its operands, those that are not constant without an array.
        inputs: The names of the model's inputs.
    """

    nodes: tuple[tuple[Node, tuple[NDArray[Any] | None, ...]], ...]
    inputs: frozenset[str]

    def check_feed(self, feed: Mapping[str, NDArray[Any]]) -> None:
        """Look at a sample before it is run.

        Raises:
            DataError: It would end the process; the text names the node.
        """
        for node, known in self.nodes:
            operands = [
                array if value is None or name_of(value) not in self.inputs else feed.get(name_of(value))
                for value, array in zip(node.inputs, known, strict=True)
            ]  # fmt: skip
            fault = _RULES[operator_of(node)](operands)
            if fault is not None:
                raise DataError(f"{operator_of(node)} {node.name} {fault}; feed it other values")


def find_crash_risks(graph: Graph) -> CrashGuard:
    """The nodes to watch.

    Raises:
        ModelError: Constants of one would end the process whatever the sample; the text names it.
    """
    inputs = frozenset(map(name_of, graph.inputs))
    watched = []
    for node in graph.model.graph.all_nodes():
        rule = _RULES.get(operator_of(node))
        if rule is None:
            continue
        known = tuple(constant_of(value) for value in node.inputs)
        fault = rule(known)
        if fault is not None:
            raise ModelError(
                f"{operator_of(node)} {node.name} {fault}, which ends ONNX Runtime's process; "
                "export the model again"
            )
        if any(_is_fed(value, inputs) for value in node.inputs):
            watched.append((node, known))
    return CrashGuard(tuple(watched), inputs)


def _is_fed(value: Value | None, inputs: frozenset[str]) -> bool:
    return value is not None and value.name in inputs


def _check_division(operands: _Operands) -> str | None:
    """The quotient is one more than the type holds; zero itself raises an error."""
    dividend, divisor = operands[:2]
    if dividend is None or divisor is None or dividend.dtype.kind != "i":
        return None
    least = np.iinfo(dividend.dtype).min
    if dividend.dtype.itemsize > 2 and (dividend == least).any() and (divisor == -1).any():
        return f"divides {least} by -1"
    return None


def _check_one_hot(operands: _Operands) -> str | None:
    depth = operands[1]
    return "has an empty depth" if depth is not None and not depth.size else None


def _check_stft(operands: _Operands) -> str | None:
    window, length = (*operands, None, None)[2:4]
    if window is not None and not window.size:
        return "has an empty window"
    return "has frames of length 0" if length is not None and not length.all() else None


_RULES: Mapping[str, Callable[[_Operands], str | None]] = {
    "Div": _check_division,
    "Mod": _check_division,
    "OneHot": _check_one_hot,
    "STFT": _check_stft,
}
