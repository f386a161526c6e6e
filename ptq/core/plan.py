"""The plan: what becomes of every tensor and node, each with its reason, as data that a user may edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptq.core.errors import PlanError
from ptq.core.types import QType, QuantParams

FORMAT = 1


@dataclass(frozen=True)
class Why:
    """The reason for a scale.

    Attributes:
        kind: ``observed``, ``same`` (as another tensor), ``fixed`` (by a specification), ``derived``
            (from other scales), ``constant`` (a constant's own values) or ``overridden`` (by the user).
        detail: The method, the other tensor and the node between, the operator, the formula.
    """

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Clamp:
    """A fused activation whose bounds the output's type does not give by itself.

    Attributes:
        producer: The node whose output is clamped.
        lo: Lowest integer, in the output's units.
        hi: Highest integer.
    """

    producer: str
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Parameters of tensors and operands, and the fate of nodes.

    Attributes:
        target: Name of the target it was solved for.
        graph: Digest of the prepared graph that it belongs to.
        tensors: Activations by name.
        operands: Weights and biases by (node, input position).
        edges: Activations that one node takes in other parameters than their own, by (node, input position):
            they are requantized on the way to it.
        folded: Activation nodes that vanish, and the node whose requantization does their work.
        clamps: Activation nodes that stay, on integers, with the parameters of their input.
        floats: Nodes that stay float, and why.
        why: The reason for each entry of ``tensors``; of ``operands`` and ``edges`` under ``node[position]``.
        factors: What the channels of layers' outputs are multiplied by before anything else, by tensor; the weights
            take it up, so that the function stays.
        shores: Tensors between integers and float of which these nodes alone, on integers, see the factors; the
            quantizer between has scales a channel.
        rounding: Nodes whose weights are not rounded each to the nearest, how they are and what that wins; None
            while it is open. A plan alone, without calibration samples, rounds all to the nearest.
    """

    target: str
    graph: str
    tensors: Mapping[str, QuantParams] = field(default_factory=dict)
    operands: Mapping[tuple[str, int], QuantParams] = field(default_factory=dict)
    edges: Mapping[tuple[str, int], QuantParams] = field(default_factory=dict)
    folded: Mapping[str, str] = field(default_factory=dict)
    clamps: Mapping[str, Clamp] = field(default_factory=dict)
    floats: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, Why] = field(default_factory=dict)
    channel_factors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rounding: Mapping[str, str] | None = None

    def check(self, digest: str) -> None:
        """Make sure that the plan was made for the graph with that digest.

        Raises:
            PlanError: It was made for another one.
        """
        if self.graph != digest:
            raise PlanError(
                "the plan belongs to another model or another version of it; make it anew "
                f"(graph {self.graph[:12]}…, this one is {digest[:12]}…)"
            )

    def to_json(self) -> str:
        """The plan as a document to read, edit and give back."""
        document = {
            "format": FORMAT,
            "target": self.target,
            "graph": self.graph,
            "tensors": {n: self._entry(p, n) for n, p in self.tensors.items()},
            "operands": {
                operand_key(*key): self._entry(p, operand_key(*key))
                for key, p in self.operands.items()
            },
            "edges": {
                operand_key(*key): self._entry(p, operand_key(*key))
                for key, p in self.edges.items()
            },
            "folded": dict(self.folded),
            "clamps": {
                n: {"producer": c.producer, "lo": c.lo, "hi": c.hi} for n, c in self.clamps.items()
            },
            "floats": dict(self.floats),
            "factors": {n: list(by) for n, by in self.channel_factors.items()},
            "shores": {n: list(nodes) for n, nodes in self.boundaries.items()},
            "rounding": None if self.rounding is None else dict(self.rounding),
        }
        return json.dumps(document, indent=1) + "\n"

    def _entry(self, params: QuantParams, key: str) -> dict[str, Any]:
        reason = self.why[key]
        return {
            # the shortest decimal that reads back as the same float32
            "scale": _shortest_decimal(params.scale),
            "zero_point": params.zero_point.tolist(),
            "type": params.qtype.name,
            "range": [params.qtype.lo, params.qtype.hi],
            "axis": params.axis,
            "why": [reason.kind, reason.detail],
        }

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan back.

        Raises:
            PlanError: It is not a plan, or an entry of it is not valid.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise PlanError(f"the plan is not JSON: {error}") from error
        except RecursionError:
            raise PlanError("no plan is nested so deep; write one with --save-plan") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise PlanError(f"the plan is not of format {FORMAT}; write it anew with this version")
        try:
            edges = document.get("edges", {})
            entries = {**document["tensors"], **document["operands"], **edges}
            return cls(
                target=str(document["target"]),
                graph=str(document["graph"]),
                tensors={n: _qparams_from_json(n, e) for n, e in document["tensors"].items()},
                operands={
                    _parse_operand_key(k): _qparams_from_json(k, e)
                    for k, e in document["operands"].items()
                },
                edges={_parse_operand_key(k): _qparams_from_json(k, e) for k, e in edges.items()},
                folded=dict(document["folded"]),
                clamps={
                    n: Clamp(str(c["producer"]), int(c["lo"]), int(c["hi"]))
                    for n, c in document["clamps"].items()
                },
                floats=dict(document["floats"]),
                channel_factors={
                    n: tuple(float(f) for f in by) for n, by in document.get("factors", {}).items()
                },
                boundaries={
                    n: tuple(map(str, nodes)) for n, nodes in document.get("shores", {}).items()
                },
                rounding=None if (how := document.get("rounding")) is None else dict(how),
                why={n: Why(*map(str, e["why"])) for n, e in entries.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"the plan lacks or misuses {error}; see docs/plan.md") from error


def operand_key(node: str, position: int) -> str:
    """How a plan names an operand: ``node[position]``."""
    return f"{node}[{position}]"


def _parse_operand_key(key: str) -> tuple[str, int]:
    node, _, position = key.removesuffix("]").rpartition("[")
    return node, int(position)


def _shortest_decimal(scale: np.ndarray[Any, Any]) -> Any:
    flat = [float(str(s)) for s in np.atleast_1d(scale)]
    return flat if scale.ndim else flat[0]


def _qparams_from_json(name: str, entry: Mapping[str, Any]) -> QuantParams:
    dtype = np.dtype(entry["type"])
    if dtype.kind not in "iu":
        raise PlanError(f"the plan gives {name} the type {dtype.name}, which is no integer type")
    lo, hi = entry["range"]
    qtype = QType(dtype.itemsize * 8, dtype.kind == "i", int(lo), int(hi))
    try:
        return QuantParams(
            np.array(entry["scale"], np.float32),
            np.array(entry["zero_point"], np.int64),
            qtype,
            entry["axis"],
        )
    except PlanError as error:
        raise PlanError(f"the plan's entry for {name}: {error}") from error
