"""Rounds weights by how the inputs of their node vary together (`ptq.rounding`), gathered in a second pass.

Once ranges are set, inputs are 8-bit codes and their sums exact integers; they contain the input's own rounding.
Where biases are corrected the mean of a sum's error vanishes, and only its variance counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibrate import Memory, Wanted, exposing
from ptq.data import Sample
from ptq.graph import Graph
from ptq.kernels.workers import threads as cores
from ptq.nodes import Node, constant, name_of, operator
from ptq.observers.covariance import Covariance
from ptq.plan import Plan
from ptq.rewrite.bias import correctable
from ptq.rounding import Factor
from ptq.types import QuantParams
from ptq.windows import Sums

ROUNDED = ("Conv", "Gemm", "MatMul")

SAMPLES = 256  # of a model; more change the covariances little
_ROWS = 2  # rows for each input of a sum
_FEWEST = 1024  # rows of a node, where it has as many
_LONGEST = 1536  # inputs whose covariance is taken as a whole: 9 MB, and 38 while it is factored
_SHORTEST = 64
_MEMORY = 128 * 2**20  # bytes of all covariances together
_BATCH = 2
_AT_ONCE = 2**21  # weights

_Key = tuple[str, QuantParams, bool]


@dataclass(frozen=True, eq=False)
class Part:
    """Some inputs of a node's sums, and how they vary; inputs of different parts count as independent."""

    inputs: slice
    covariance: Covariance


@dataclass(frozen=True, eq=False)
class Choice:
    """A weight's rounding.

    Attributes:
        weight: float32, multiples of the scale.
        nearest_db: Signal over error of the node's sums with each weight rounded to the nearest, in decibels.
        chosen_db: The same with the weights as chosen.
    """

    weight: NDArray[np.float32]
    nearest_db: float
    chosen_db: float

    @property
    def gain(self) -> str:
        """Both figures in words."""
        return f"signal over error of its sums {self.nearest_db:.1f} → {self.chosen_db:.1f} dB"


class SecondOrder:
    """The roundings of a graph's weights; each is computed when first asked for."""

    def __init__(self, parts: Mapping[str, Sequence[Part]]) -> None:
        """``parts`` by node."""
        self._parts = parts
        self._known: dict[tuple[str, QuantParams, bool], Choice] = {}

    def forget(self) -> None:
        """Give the memory back; no further rounding is chosen."""
        self._parts = {}
        self._known = {}

    def choices(self, graph: Graph, plan: Plan, *, corrected: bool) -> dict[str, Choice]:
        """How to round the weights that the plan quantizes and does not want rounded to the nearest, by node.

        Args:
            graph: The prepared graph.
            plan: Its plan.
            corrected: Whether biases are corrected.
        """
        asked: dict[str, tuple[Node, _Key]] = {}
        for node in graph.nodes:
            params = plan.operands.get((_name(node), 1))
            wanted = plan.rounding is None or _name(node) in plan.rounding
            if params is not None and wanted and _name(node) in self._parts:
                key = _name(node), params, corrected and correctable(node)
                asked[_name(node)] = node, key
        missing = [(node, key) for node, key in asked.values() if key not in self._known]
        with ThreadPoolExecutor(cores()) as pool:
            found = list(pool.map(lambda item: self._choose(item[0], *item[1][1:]), missing))
        self._known.update((key, choice) for (_, key), choice in zip(missing, found, strict=True))
        return {name: self._known[key] for name, (_, key) in asked.items()}

    def _choose(self, node: Node, params: QuantParams, centred: bool) -> Choice:
        sums = Sums(node)
        scale, zero_point = (_by_sum(sums, values) for values in (params.scale, params.zero_point))
        steps = sums.columns() / scale
        lo, hi = params.qtype.lo - zero_point, params.qtype.hi - zero_point
        integers, squares = np.empty_like(steps), np.zeros((3, *steps[:, 0].shape))
        at_once = max(1, _AT_ONCE // steps[:, :, 0].size)
        for part in self._parts[_name(node)]:
            factor = Factor(part.covariance.moment(centred=centred))
            for start in range(0, steps.shape[2], at_once):
                some = slice(start, start + at_once)
                wanted, bounds = steps[:, part.inputs, some], (lo[:, :, some], hi[:, :, some])
                plain, chosen = factor.nearest(wanted, *bounds), factor.round(wanted, *bounds)
                better = (chosen.error < plain.error)[:, None]
                integers[:, part.inputs, some] = np.where(better, chosen.integers, plain.integers)
                least = np.minimum(chosen.error, plain.error)
                squares[:, :, some] += factor.size(wanted), plain.error, least
        signal, before, after = (squares * np.square(scale[:, 0])).sum(axis=(1, 2))
        weight = sums.weight_of((integers * scale).astype(np.float32))
        return Choice(weight, _decibels(signal, before), _decibels(signal, after))


def gather(
    graph: Graph, plan: Plan, samples: Iterable[Sample], count: int, *, threads: int = 0
) -> SecondOrder:
    """Run the model over samples and see how the inputs of weighted nodes vary.

    Args:
        graph: The prepared graph.
        plan: Its plan, which says what the inputs are quantized with.
        samples: Some hundred suffice.
        count: How many there are about; the more, the fewer rows of each are looked at.
        threads: Threads for one operator; 0 is one a core.

    Raises:
        DataError: The model fails on a sample; the text names it.
    """
    nodes = [node for node in graph.nodes if _takes_part(node, plan)]
    sums = [Sums(node) for node in nodes]
    sums = [s for s in sums if s.taps <= _LONGEST]
    longest = _longest(sums)
    parts = {_name(s.node): _parts(s, longest) for s in sums}
    if not sums:
        return SecondOrder({})
    names = list(dict.fromkeys(_input(s.node) for s in sums))
    memory = Memory(exposing(graph, Wanted(names), threads=threads), names, _BATCH)
    remaining, number = iter(samples), 0
    with ThreadPoolExecutor(cores()) as pool:
        while group := list(islice(remaining, memory.batch)):
            see = _Seeing(memory.run(group), plan, parts, number, max(count, 1))
            list(pool.map(see, sums))
            number += len(group)
    for some in parts.values():
        for part in some:
            part.covariance.settle()
    return SecondOrder(parts)


@dataclass(frozen=True, eq=False)
class _Seeing:
    """Adds the rows of some samples to a node's covariances."""

    held: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]
    plan: Plan
    parts: Mapping[str, Sequence[Part]]
    first: int
    samples: int

    def __call__(self, sums: Sums) -> None:
        parts, name = self.parts[_name(sums.node)], _input(sums.node)
        quota = -(-max(_ROWS * sums.length, _FEWEST) // self.samples)
        held = self.held[name]
        alike = isinstance(held, np.ndarray) or len({array.shape for array in held}) == 1
        stacks = [np.asarray(held)] if alike else [array[None] for array in held]
        first = self.first
        for stack in stacks:
            if stack.size:
                seen = sums.rows(stack, self.plan.tensors[name], first, quota)
                for part in parts:
                    part.covariance.update(seen[:, :, part.inputs])
            first += len(stack)


def _takes_part(node: Node, plan: Plan) -> bool:
    if operator(node) not in ROUNDED or (_name(node), 1) not in plan.operands:
        return False
    weight = constant(node.inputs[1])
    batched = operator(node) == "MatMul" and weight is not None and weight.ndim != 2
    return weight is not None and not batched and _input(node) in plan.tensors


def _longest(sums: Sequence[Sums]) -> int:
    """Inputs that a covariance may have for all of them to fit the memory."""
    longest = _LONGEST
    while longest > _SHORTEST:
        if sum(_bytes(s, longest) for s in sums) <= _MEMORY:
            break
        longest = max(longest // 2, _SHORTEST)
    return longest


def _bytes(sums: Sums, longest: int) -> int:
    return sum(sums.groups * 4 * (cut.stop - cut.start) ** 2 for cut in _cuts(sums, longest))


def _cuts(sums: Sums, longest: int) -> Iterator[slice]:
    """The inputs of a sum cut into whole channels, so many inputs at most or one channel."""
    channels = sums.length // sums.taps
    count = -(-channels // max(1, longest // sums.taps))
    edges = [channels * i // count * sums.taps for i in range(count + 1)]
    yield from (slice(a, b) for a, b in itertools.pairwise(edges))


def _parts(sums: Sums, longest: int) -> list[Part]:
    cuts = _cuts(sums, longest)
    return [Part(cut, Covariance(sums.groups, cut.stop - cut.start)) for cut in cuts]


def _by_sum(sums: Sums, values: NDArray[Any]) -> NDArray[np.float64]:
    """A parameter of the weight, one for all or one a channel, shape (groups, 1, sums)."""
    whole = values.astype(np.float64).reshape(-1)
    return np.broadcast_to(whole, (sums.groups * sums.count,)).reshape(sums.groups, 1, sums.count)


def _input(node: Node) -> str:
    assert node.inputs[0] is not None
    return name_of(node.inputs[0])


def _name(node: Node) -> str:
    assert node.name is not None
    return node.name


def _decibels(signal: float, error: float) -> float:
    return 10 * math.log10(signal / error) if signal and error else math.inf
