"""What does ptq know of each operator, in the words of a table for people?

The rows of ptq.core.ops, ptq.core.targets and ptq.executor.arithmetics; ``ptq ops`` and docs/ops.md print them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.ops import OPS, UNARY
from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, FixedQParams, OpSpec, OutputRule
from ptq.core.targets import TARGETS, Target
from ptq.executor.arithmetics import ARITHMETICS

NOT_QUANTIZED = "stays float"


@dataclass(frozen=True)
class OpRow:
    """One operator.

    Attributes:
        op: ONNX operator.
        inputs: The role of each input.
        outputs: By target: where scale and zero point of the output come from.
        onnxruntime: The operator on integers in ONNX Runtime: ``itself`` where it only moves them,
            ``folded`` where the node before does its work, ``float`` where there is none.
        litert: LiteRT's operator; empty where it has none.
        runs: By arithmetic: ``runs``, ``by table`` of a function that is float there, or
            ``cannot run``: the executor leaves it to ONNX Runtime in float.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    onnxruntime: str
    litert: str
    runs: Mapping[str, str]


def list_op_rows() -> tuple[OpRow, ...]:
    """The whole table, in the order of ptq.ops."""
    return tuple(_row(spec) for spec in OPS.values())


def merge_equal_cells(cells: Mapping[str, str]) -> str:
    """What most say, then the others by name: ``observed; litert, gemmlowp: same as the input``."""
    names: dict[str, list[str]] = {}
    for name, text in cells.items():
        names.setdefault(text, []).append(name)
    usual = max(names, key=lambda text: len(names[text]))
    others = [f"{', '.join(by)}: {text}" for text, by in names.items() if text != usual]
    return "; ".join([usual, *others])


def _row(spec: OpSpec) -> OpRow:
    roles = [role.value for role in spec.input_roles]
    if spec.variadic:
        roles[-1] += " …"
    return OpRow(
        op=spec.op,
        inputs=tuple(roles),
        outputs={name: _output(spec, target) for name, target in TARGETS.items()},
        onnxruntime=_form(spec),
        litert=spec.litert or "",
        runs={name: _execution_of(spec, name) for name in ARITHMETICS},
    )


def _output(spec: OpSpec, target: Target) -> str:
    if not target.can_quantize(spec):
        return NOT_QUANTIZED
    rule = target.output_rule(spec)
    if isinstance(rule, FixedQParams):
        return f"scale 1/{1 / rule.scale:g}, zero point {rule.zero_point}"
    if rule is OutputRule.ONE_GROUP and not target.follows_litert_spec:
        return "one with the inputs that it alone reads"
    return rule.value


def _form(spec: OpSpec) -> str:
    if spec.qlinear is None:
        return "float"
    if spec.qlinear == RUNS_ON_INTEGERS:
        return "itself"
    if spec.qlinear == AS_LOOKUP_TABLE:
        return "folded, or itself"
    return spec.qlinear.op.rpartition("::")[2]


def _execution_of(spec: OpSpec, arithmetic: str) -> str:
    if spec.op in ARITHMETICS[arithmetic]:
        return "runs"
    return "by table" if spec.op in UNARY else "cannot run"
