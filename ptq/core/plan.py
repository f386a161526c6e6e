"""The plan: parameters of tensors and precision of nodes, each with its reason, as a document that a user may edit.

Formats 1 and 2 are read, format 2 is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from ptq.core import files
from ptq.core.errors import PlanError, UsageError
from ptq.core.json_text import indent_json
from ptq.core.opspec import WEIGHT_INPUT
from ptq.core.option_checks import require_path
from ptq.core.plan_entries import (
    FORMAT,
    name_operand,
    read_document,
    read_entry,
    read_integer,
    read_keys,
    read_list,
    read_number,
    read_object,
    read_operand_key,
    read_text,
    read_texts,
    refuse_entry,
    to_shortest_decimals,
)
from ptq.core.record import Record, decode_record, encode_record
from ptq.core.types import QuantParams


@dataclass(frozen=True)
class Why:
    """The reason for a scale.

    Attributes:
        kind: ``observed``, ``same`` (shared with another tensor), ``fixed`` (by a specification), ``derived``
            (from other scales), ``constant`` (a constant's own values) or ``overridden`` (by the user).
        detail: The method, the other tensor and the node between, the operator, or the formula.
    """

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True)
class Clamp:
    """A fused activation that still clamps: its bounds lie inside the range of the output's integers.

    Attributes:
        producer: The node whose output is clamped.
        lo: Lowest integer, in the output's scale.
        hi: Highest integer, in the output's scale.
    """

    producer: str
    lo: int
    hi: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Parameters of tensors and operands, and the nodes that stay float.

    Attributes:
        target: Name of the target that the plan was solved for.
        graph: Digest of the prepared graph that the plan belongs to.
        tensors: Parameters of activations, by tensor name.
        operands: Parameters of weights and biases, by (node, input position).
        edges: Parameters of activations that one node reads in other parameters than the tensor's own, by (node,
            input position). They are requantized before that node.
        folded: Activation nodes that are removed, and the node whose requantization does their work.
        clamps: Activation nodes that stay, on integers, with the parameters of their input.
        floats: Nodes that stay float, with the reason.
        why: The reason for each entry of ``tensors``, and of ``operands`` and ``edges`` under ``node[position]``.
        channel_factors: Factors by which the channels of layer outputs were multiplied before quantization, by
            tensor. The weights that write or read the tensor contain them, so the model's function is unchanged.
        boundaries: Tensors between integers and float, with the names of the integer nodes that read or write
            them multiplied by the channel factors. The quantizer between has one scale for each channel.
        rounding: Nodes whose weights are rounded by second order (GPTQ), or were tried so, with the SQNR of both
            ways. None before that is decided. Without calibration samples all weights are rounded to the nearest.
        costs: Name and digest of the table of times that decided which nodes stay float; None if none did.
        weights: ``u8`` where weights are written as uint8 (the integers of ``operands`` plus 128); None as they are.
        preprocess: How the calibration samples became arrays (see `ptq.core.preprocess_record`); None if unknown.
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
    preprocess: Record | None = None
    costs: Record | None = None
    weights: Literal["u8"] | None = None

    def __repr__(self) -> str:
        counts = (
            f"tensors={len(self.tensors)}, operands={len(self.operands)}, floats={len(self.floats)}"
        )
        return f"Plan(target={self.target!r}, graph={self.graph[:12]!r}, {counts})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a file.

        Raises:
            PlanError: The file cannot be read, is not a plan, or one of its entries is invalid.
        """
        require_path("path", path)
        try:
            return cls.from_json(files.read(Path(path)).decode())
        except OSError as error:
            if str(path).lstrip().startswith("{"):
                raise PlanError(
                    "the path of the plan is JSON text; read it with Plan.from_json"
                ) from None
            raise PlanError(
                f"{path}: cannot be read ({error.strerror}); save a plan first"
            ) from None
        except UnicodeDecodeError:
            raise PlanError(f"{path}: the file is not text; save a plan first") from None
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan atomically, as JSON.

        Raises:
            PtqError: The file cannot be written.
        """
        require_path("path", path)
        files.write(Path(path), self.to_json().encode())

    def check(self, digest: str) -> None:
        """Check that the plan was made for the graph with the given digest.

        Raises:
            PlanError: The plan was made for another graph.
        """
        if self.graph != digest:
            raise PlanError(
                "the plan belongs to another model or another version of it; create a new plan "
                f"(graph {self.graph[:12]}…, this one is {digest[:12]}…)"
            )

    @property
    def is_per_tensor(self) -> bool:
        """Whether no weight has scales for its channels, so that opsets from 10 on can be kept."""
        return all(params.axis is None for params in self.operands.values())

    def find_weight_qparams(self, node: str) -> QuantParams | None:
        """The parameters of a node's weight; None if the plan does not quantize it."""
        return self.operands.get((node, WEIGHT_INPUT))

    def to_json(self) -> str:
        """The plan as a JSON document of format 2."""
        document = {
            "format": FORMAT,
            "target": self.target,
            "graph": self.graph,
            "tensors": {n: self._entry(p, n) for n, p in self.tensors.items()},
            "operands": {
                name_operand(*key): self._entry(p, name_operand(*key))
                for key, p in self.operands.items()
            },
            "edges": {
                name_operand(*key): self._entry(p, name_operand(*key))
                for key, p in self.edges.items()
            },
            "folded": dict(self.folded),
            "clamps": {
                n: {"producer": c.producer, "lo": c.lo, "hi": c.hi} for n, c in self.clamps.items()
            },
            "floats": dict(self.floats),
            "channel_factors": {n: list(by) for n, by in self.channel_factors.items()},
            "boundaries": {n: list(nodes) for n, nodes in self.boundaries.items()},
            "rounding": None if self.rounding is None else dict(self.rounding),
        }
        if self.preprocess is not None:
            # that of samples and that of statistics have their keys in different orders
            document["preprocess"] = decode_record(encode_record(self.preprocess))
        if self.costs is not None:
            document["costs"] = dict(self.costs)
        if self.weights is not None:
            document["weights"] = self.weights
        return indent_json(document) + "\n"

    def _entry(self, params: QuantParams, key: str) -> dict[str, Any]:
        reason = self.why[key]
        return {
            "scale": to_shortest_decimals(params.scale),
            "zero_point": params.zero_point.tolist(),
            "type": params.qtype.name,
            "range": [params.qtype.lo, params.qtype.hi],
            "axis": params.axis,
            "why": [reason.kind, reason.detail],
        }

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan from a JSON document of format 1 or 2.

        Raises:
            PlanError: The text is not a plan, or one of its entries is invalid.
            UsageError: It is no text.
        """
        if not isinstance(text, str):
            raise UsageError(
                f"text of type {type(text).__name__} is no JSON text of a plan", "text"
            )
        document = read_document(text)
        parts = {
            key: read_object(key, document.get(key, {})) for key in ("tensors", "operands", "edges")
        }
        entries = {
            key: {name: read_entry(f"{key} {name}", entry) for name, entry in part.items()}
            for key, part in parts.items()
        }

        def read_operands(key: str) -> dict[tuple[str, int], QuantParams]:
            return {read_operand_key(key, n): params for n, (params, _) in entries[key].items()}

        rounding = document.get("rounding")
        return cls(
            target=read_text("target", document["target"]),
            graph=read_text("graph", document["graph"]),
            tensors={name: params for name, (params, _) in entries["tensors"].items()},
            operands=read_operands("operands"),
            edges=read_operands("edges"),
            folded=read_texts("folded", document["folded"]),
            clamps={
                name: _read_clamp(f"clamps {name}", clamp)
                for name, clamp in read_object("clamps", document["clamps"]).items()
            },
            floats=read_texts("floats", document["floats"]),
            channel_factors={
                name: tuple(read_number(f"channel_factors {name}", f) for f in by)
                for name, by in _read_lists(document, "channel_factors")
            },
            boundaries={
                name: tuple(read_text(f"boundaries {name}", node) for node in nodes)
                for name, nodes in _read_lists(document, "boundaries")
            },
            rounding=None if rounding is None else read_texts("rounding", rounding),
            preprocess=_read_record(document, "preprocess"),
            costs=_read_record(document, "costs"),
            weights=_read_weights(document),
            why={name: Why(*why) for part in entries.values() for name, (_, why) in part.items()},
        )


def _read_record(document: Mapping[str, Any], key: str) -> Record | None:
    if document.get(key) is None:
        return None
    try:
        return decode_record(json.dumps(read_object(key, document[key])))
    except ValueError as error:
        refuse_entry(key, f"is no record: {error}")


def _read_weights(document: Mapping[str, Any]) -> Literal["u8"] | None:
    found = document.get("weights")
    if found not in (None, "u8"):
        refuse_entry("weights", f"is {found!r}, not 'u8'; leave it out for other formats")
    return None if found is None else "u8"


def _read_lists(document: Mapping[str, Any], key: str) -> Iterator[tuple[str, list[Any]]]:
    for name, value in read_object(key, document.get(key, {})).items():
        yield name, read_list(f"{key} {name}", value)


def _read_clamp(where: str, value: Any) -> Clamp:
    entry = read_keys(where, value, ("producer", "lo", "hi"))
    lo, hi = (read_integer(f"{where} {key}", entry[key]) for key in ("lo", "hi"))
    if lo > hi:
        refuse_entry(where, f"has lo {lo} above hi {hi}")
    return Clamp(read_text(f"{where} producer", entry["producer"]), lo, hi)
