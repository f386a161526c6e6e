"""Guard against operands that crash the process inside ONNX Runtime, where other operands raise an error.

Its kernels divide by these operands without a check, and the processor's integer exception ends the process. Found in
ONNX Runtime 1.31.1; `_REPAIRED` says which version repaired what. The guard checks constants of the model and inputs
of a sample. Values that other nodes compute are unknown before the run, so it does not check them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED, Version
from ptq.model.node import Node, Value, get_constant, get_name, get_operator

_Operands = Sequence[NDArray[Any] | None]


@dataclass(frozen=True, eq=False)
class CrashGuard:
    """Nodes that read inputs of the model and crash on some of their values.

    Attributes:
        nodes: Each node with its operands: the array of a constant, None for any other operand.
        inputs: Names of the model's inputs.
    """

    nodes: tuple[tuple[Node, tuple[NDArray[Any] | None, ...]], ...]
    inputs: frozenset[str]

    def check_feed(self, feed: Mapping[str, NDArray[Any]]) -> None:
        """Check a sample before it runs.

        Raises:
            DataError: The sample would crash the process; the message names the node.
        """
        for node, constants in self.nodes:
            operands = [
                array if value is None or get_name(value) not in self.inputs else feed.get(get_name(value))
                for value, array in zip(node.inputs, constants, strict=True)
            ]  # fmt: skip
            fault = _RULES[get_operator(node)](operands)
            if fault is not None:
                raise DataError(
                    f"{get_operator(node)} {node.name} {fault}: this crashes ONNX Runtime. Feed other values"
                )


def find_crash_risks(graph: Graph) -> CrashGuard:
    """The nodes of a graph that can crash ONNX Runtime.

    Raises:
        ModelError: Constants of a node crash it for every sample; the message names the node.
    """
    inputs = frozenset(map(get_name, graph.inputs))
    watched = []
    for node in graph.model.graph.all_nodes():
        rule = _RULES.get(get_operator(node))
        if rule is None:
            continue
        constants = tuple(get_constant(value) for value in node.inputs)
        fault = rule(constants)
        if fault is not None:
            raise ModelError(
                f"{get_operator(node)} {node.name} {fault}: this crashes ONNX Runtime. "
                "Fix the constant and export again"
            )
        if any(_is_fed(value, inputs) for value in node.inputs):
            watched.append((node, constants))
    return CrashGuard(tuple(watched), inputs)


def _is_fed(value: Value | None, inputs: frozenset[str]) -> bool:
    return value is not None and value.name in inputs


def _check_division(operands: _Operands) -> str | None:
    """Fault of the least integer divided by -1, which overflows; division by zero raises an error instead."""
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


_EVERY_RULE: Mapping[str, Callable[[_Operands], str | None]] = {
    "Div": _check_division,
    "Mod": _check_division,
    "OneHot": _check_one_hot,
    "STFT": _check_stft,
}
_REPAIRED: Mapping[str, Version] = {"Mod": (1, 32), "OneHot": (1, 32)}
"""The first version of ONNX Runtime in which the operator raises an error or returns a result instead."""
_RULES = {
    op: rule for op, rule in _EVERY_RULE.items() if op not in _REPAIRED or _REPAIRED[op] > INSTALLED
}
"""The rules that hold for the installed ONNX Runtime."""
