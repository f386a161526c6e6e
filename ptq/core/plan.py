"""Quantization plan: scales of all tensors and the form of each node, each with its reason, as data to edit."""

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
    """Reason for a scale.

    Attributes:
        kind: ``observed``, ``same`` (as another tensor), ``fixed`` (by a specification), ``derived``
            (from other scales), ``constant`` (from the values of a constant) or ``overridden`` (by the user).
        detail: The range method, the other tensor and the node between, the operator, or the formula.
    """

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Clamp:
    """An activation that stays a node because its bounds are not those of the output's integer type.

    Attributes:
        producer: The node whose output is clamped.
        lo: Lowest integer of the output.
        hi: Highest integer of the output.
    """

    producer: str
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Parameters of tensors and operands, and what becomes of each node.

    Attributes:
        target: Name of the target that the plan was solved for.
        graph: Digest of the prepared graph that the plan belongs to.
        tensors: Parameters of activations, by name.
        operands: Parameters of weights and biases, by (node, input position).
        edges: Parameters of activations that one node reads with other parameters than the tensor's, by (node, input
            position). The activation is requantized for that node.
        folded: Activation nodes that are removed, and the node whose requantization clamps for them.
        clamps: Activation nodes that stay, on integers, with the parameters of their input.
        floats: Nodes that stay float, with the reason.
        why: Reason for each entry of ``tensors`` by name, and of ``operands`` and ``edges`` by ``node[position]``.
        channel_factors: Factors of the channels of layer outputs, by tensor (channel equalization). They are applied
            first. Weights compensate them, so that the function does not change.
        boundaries: Tensors between integers and float that are scaled by such factors for these integer nodes only.
            Their quantizers have per-channel scales.
        rounding: Nodes whose weights are not rounded to nearest, with the method and its gain; None if not decided.
            A plan without calibration samples rounds all weights to nearest.
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
        """Check that the plan was made for the graph with that digest.

        Raises:
            PlanError: It was made for another graph.
        """
        if self.graph != digest:
            raise PlanError(
                "the plan belongs to another model or to another version of this model; create a new plan "
                f"(its graph is {self.graph[:12]}…, this graph is {digest[:12]}…)"
            )

    def to_json(self) -> str:
        """Return the plan as a JSON document, which can be edited and read back."""
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
            # The shortest decimal that reads back as the same float32.
            "scale": _shortest_decimal(params.scale),
            "zero_point": params.zero_point.tolist(),
            "type": params.qtype.name,
            "range": [params.qtype.lo, params.qtype.hi],
            "axis": params.axis,
            "why": [reason.kind, reason.detail],
        }

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan from its JSON document.

        Raises:
            PlanError: It is not a plan, or an entry is invalid.
        """
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise PlanError(f"the plan is not JSON: {error}") from error
        except RecursionError:
            raise PlanError("the plan is nested too deeply; create a new plan") from None
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
    """Return the name of an operand in a plan: ``node[position]``."""
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
        raise PlanError(
            f"the plan gives {name} the type {dtype.name}, which is not an integer type"
        )
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
