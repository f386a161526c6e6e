"""Operator table for people, printed by ``ptq ops`` and docs/ops.md.

The facts come from ptq.core.ops, ptq.core.targets and ptq.executor.arithmetics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.ops import OPS, UNARY
from ptq.core.opspec import AS_LOOKUP_TABLE, RUNS_ON_INTEGERS, FixedQParams, OpSpec, OutputRule
from ptq.core.target import Target
from ptq.core.targets import TARGETS
from ptq.executor.arithmetics import ARITHMETICS, get_arithmetic

NOT_QUANTIZED = "stays float"


@dataclass(frozen=True)
class OpRow:
    """One operator.

    Attributes:
        op: ONNX operator.
        inputs: Role of each input.
        outputs: By target: source of the output's scale and zero point.
        onnxruntime: Integer operator in ONNX Runtime: its name; ``itself`` if the operator also takes integers;
            ``folded`` if the previous node's requantization includes it; ``float`` if there is none.
        litert: Operator in LiteRT; ``in float`` if a `.tflite` file computes it by float operators; empty if there
            is none.
        runs: By arithmetic: ``runs``; ``by table`` for a function that the runtime computes in float and
            the executor reads from a lookup table; ``cannot run`` if the executor runs ONNX Runtime in float;
            ``refused`` if the runtime loads no file with it.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    onnxruntime: str
    litert: str
    runs: Mapping[str, str]


def list_op_rows() -> tuple[OpRow, ...]:
    """All rows, in the order of ptq.core.ops."""
    return tuple(_build_row(spec) for spec in OPS.values())


def merge_equal_cells(cells: Mapping[str, str]) -> str:
    """Most frequent text, then the exceptions by name: ``observed; litert, gemmlowp: same as the input``."""
    names: dict[str, list[str]] = {}
    for name, text in cells.items():
        names.setdefault(text, []).append(name)
    usual = max(names, key=lambda text: len(names[text]))
    exceptions = [f"{', '.join(by)}: {text}" for text, by in names.items() if text != usual]
    return "; ".join([usual, *exceptions])


def _build_row(spec: OpSpec) -> OpRow:
    roles = [role.value for role in spec.input_roles]
    if spec.variadic:
        roles[-1] += " …"
    return OpRow(
        op=spec.op,
        inputs=tuple(roles),
        outputs={name: _describe_output(spec, target) for name, target in TARGETS.items()},
        onnxruntime=_describe_form(spec),
        litert=_describe_litert_form(spec),
        runs={name: _describe_execution(spec, name) for name in ARITHMETICS},
    )


def _describe_output(spec: OpSpec, target: Target) -> str:
    if not target.can_quantize(spec):
        return NOT_QUANTIZED
    rule = target.output_rule(spec)
    if isinstance(rule, FixedQParams):
        return f"scale 1/{1 / rule.scale:g}, zero point {rule.zero_point}"
    if rule is OutputRule.ONE_GROUP and not target.follows_litert_spec:
        return "shared with inputs that only it reads or whose range is nearly the same"
    return rule.value


def _describe_form(spec: OpSpec) -> str:
    if spec.qlinear is None:
        return "float"
    if spec.qlinear == RUNS_ON_INTEGERS:
        return "itself"
    if spec.qlinear == AS_LOOKUP_TABLE:
        return "folded, or itself"
    return spec.qlinear.op.rpartition("::")[2]


def _describe_litert_form(spec: OpSpec) -> str:
    return ", ".join(filter(None, (spec.litert, "in float" if spec.litert_in_float else "")))


def _describe_execution(spec: OpSpec, arithmetic: str) -> str:
    if spec.op in get_arithmetic(arithmetic).lacking:
        return "refused"
    if spec.op in ARITHMETICS[arithmetic]:
        return "runs"
    return "by table" if spec.op in UNARY else "cannot run"
