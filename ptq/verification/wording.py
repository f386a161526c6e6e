"""A verification, and risks on other processors, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptq.core.wording import describe_islands, explain_floats, plural
from ptq.verification.portability import NodeRisk, Portability
from ptq.verification.verify import TensorDifference, Verification

_LSB_NOTE = (
    "largest: the largest difference of an integer, in LSB; one LSB is one step of the scale"
)
_SHARE_NOTE = "of a float result: its largest difference, as a share of its largest value"
EXPECTED = (
    "differences are expected: without VNNI, this processor makes ONNX Runtime saturate sums "
    "of two products to 16 bits"
)


def list_differing(result: Verification) -> list[TensorDifference]:
    """The tensors that differ, in execution order."""
    return [t for t in result.tensors if t.differing or t.differing_locally]


def describe_equality(result: Verification) -> str:
    """What was compared, and whether it is equal."""
    elements = sum(t.elements for t in result.tensors)
    return (
        f"{describe_compared(result)}, {elements} elements on "
        f"{plural(result.samples, 'sample')}: {_name_runtime(result)} and the integer "
        f"executor ({result.arithmetic_version}) {_describe_relation(result)}"
    )


def describe_compared(result: Verification) -> str:
    """The number of integer tensors that were compared, and of all if float operators compute some of them."""
    count = len(result.tensors)
    if not result.not_compared:
        return plural(count, "integer tensor")
    return f"{count} of {plural(count + result.not_compared, 'integer tensor')}"


def _describe_relation(result: Verification) -> str:
    if result.differs_in_last_bits:
        return "are equal, but for the last bits of float outputs"
    if result.changes_when_read:
        return "are equal, but reading the integers changes ONNX Runtime's outputs"
    return "are equal" if result.equal else "differ"


def describe_largest(of: TensorDifference | NodeRisk) -> str:
    """The largest difference of a tensor, or the largest change: in LSB, or of floats as a share."""
    return f"{of.largest_share:.0e}" if of.largest_share else str(of.largest)


def explain_largest(shown: Iterable[TensorDifference | NodeRisk]) -> list[str]:
    """What `describe_largest` gives of these, a note for each unit."""
    has_floats = any(of.largest_share for of in shown)
    return [_LSB_NOTE, *([_SHARE_NOTE] if has_floats else [])]


def _name_runtime(result: Verification) -> str:
    return result.runtime or f"ONNX Runtime {result.ort_version}"


def describe_counts(result: Verification) -> Iterator[str]:
    """How many integers differ, and where the first difference starts."""
    yield f"end to end: {sum(t.differing for t in result.tensors)} differ"
    local = sum(t.differing_locally for t in result.tensors)
    owner = "LiteRT" if result.runtime else "ONNX Runtime"
    yield f"node by node, each on {owner}'s own integers: {local} differ"
    if not result.intact:
        yield (
            f"reading the integers changed {result.changed_outputs} of {result.outputs} values of ONNX Runtime's "
            f"outputs, by up to {result.changed_share:.0e} of the largest value"
        )
    if result.first is not None:
        yield _describe_first(
            result.first, len(list_differing(result)), bool(result.islands or result.floats)
        )


def explain_differences(result: Verification) -> Iterator[str]:
    """Why integers differ, and what is not computed in integers."""
    if (
        list_differing(result)
        and result.arithmetic_version.startswith("ort@")
        and not result.exact_products
    ):
        yield EXPECTED
    if not result.optimized:
        yield "ONNX Runtime ran without optimizations: differences do not fail the verification"
    yield from _explain_change(result)
    for op, why in result.explanations.items():
        yield f"{op}: {why}"
    if result.not_compared:
        yield (
            f"{plural(result.not_compared, 'integer tensor')} could not be compared: float operators compute "
            f"{'them' if result.not_compared > 1 else 'it'} in both engines"
        )
    yield from describe_islands(result.islands, end_to_end=False)
    yield from explain_floats(
        (s.op, s.why.removeprefix("must stay float: ")) for s in result.floats
    )


def _explain_change(result: Verification) -> Iterator[str]:
    """Why reading the integers changed ONNX Runtime's outputs."""
    causes = result.causes
    if causes.merged:
        yield (
            f"ONNX Runtime merges the quantizers of {', '.join(causes.merged)} with those before when they are not "
            "read: its outputs have another scale; remove one of the two pairs, or give both one scale and zero point"
        )
    elif result.changes_when_read:
        yield (
            "ONNX Runtime computes a float operator in another order of additions or another layout when tensors "
            "beside it are read; a value at a rounding tie then becomes another integer"
        )
    if causes.unread:
        yield (
            "nodes that nobody reads count as readers in ONNX Runtime, which then fuses other nodes: remove "
            f"{_name_some(causes.unread)}"
        )
    elif causes.unexplained:
        yield (
            f"reading the integers changes {_name_some(causes.unexplained)}, but no float operator or merged pair of "
            "quantizers lies before: the integers compared are not those that ONNX Runtime otherwise computes; "
            "report the model"
        )


def _name_some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest


def describe_risks(result: Portability) -> Iterator[str]:
    """Headroom, ties and saturation of all nodes."""
    if not result.nodes:
        yield "no operator multiplies constant weights in ONNX Runtime's integers"
        return
    observed = min(node.bits_left_met for node in result.nodes)
    elements = sum(node.elements for node in result.nodes)
    fits = "fit int32" if result.bits_left >= 0 else "may overflow int32"
    yield (
        f"accumulators: {fits}; {result.bits_left:.1f} bits to spare for the worst input, "
        f"{observed:.1f} on these samples"
    )
    yield f"exact ties: {result.ties} of {elements} outputs; other runtimes may round them differently"
    if not result.saturable:
        yield "without VNNI: no pair of weights can saturate; the integers are the same"
        return
    changed = sum(node.saturated for node in result.saturated)
    reachable = f"without VNNI: {plural(len(result.saturable), 'node')} can saturate"
    yield (
        f"{reachable}; {plural(changed, 'integer')} in {plural(len(result.saturated), 'node')} "
        "would change on these samples (each node given exact inputs)"
        if changed
        else f"{reachable}; no integer changes on these samples"
    )


def describe_remedies(result: Portability) -> Iterator[str]:
    """What helps against saturation; nothing if no node can saturate."""
    for remedy in result.remedies:
        yield f"remedy: {remedy}"
    if result.remedies:
        yield "options of ptq quantize: --weights reduced, --weights u8"


def rank_risks(nodes: Sequence[NodeRisk]) -> list[NodeRisk]:
    """Nodes with the most changed integers first."""
    return sorted(nodes, key=lambda node: (-node.saturated, -node.saturable))


def _describe_first(tensor: TensorDifference, count: int, has_float: bool) -> str:
    upstream = "upstream, in float code" if has_float else "upstream"
    origin = "in this node" if tensor.differing_locally else upstream
    return (
        f"{plural(count, 'tensor')} {'differs' if count == 1 else 'differ'}; "
        f"first: {tensor.tensor}, output of {tensor.node} ({tensor.op}): "
        f"{tensor.differing} of {tensor.elements} elements differ, by up to {_describe_amount(tensor)}; "
        f"the mismatch starts {origin}"
    )


def _describe_amount(tensor: TensorDifference) -> str:
    shown = describe_largest(tensor)
    return f"{shown} of the largest value" if tensor.largest_share else f"{shown} LSB"
