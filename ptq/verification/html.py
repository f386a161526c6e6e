"""A verification as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptq.core.topics import name_command
from ptq.core.wording import format_decibels, plural
from ptq.executor.runtimes.registry import RUNTIMES
from ptq.executor.runtimes.runtime import describe_placement
from ptq.page.blocks import Card, Cell, Column, Facts, Lines, Table, Tone
from ptq.page.page import Page, RunFact, Section
from ptq.page.render import render_html
from ptq.verification.portability import Portability
from ptq.verification.runtime_check import (
    RuntimeCheck,
    describe_failure,
    describe_runtime_check,
)
from ptq.verification.verify import Verification
from ptq.verification.wording import (
    describe_compared,
    describe_counts,
    describe_equality,
    describe_largest,
    describe_remedies,
    describe_risks,
    explain_differences,
    explain_largest,
    list_differing,
    rank_risks,
)

_TENSORS = (
    Column("#", True),
    Column("tensor", wide=True),
    Column("node"),
    Column("operator"),
    *(Column(title, True) for title in ("differ", "at the node", "of", "largest (LSB)")),
)
_IN_RUNTIME = (
    Column("tensor", wide=True),
    Column("node"),
    Column("operator"),
    Column("SQNR dB", True),
    Column("values", True),
)
_ABOVE_ALL = 1e9
"""Where a tensor without any difference is sorted, in decibels."""
_RISKS = (
    Column("node", wide=True),
    *(
        Column(t, True)
        for t in ("channels", "can saturate", "integers", "changed", "largest (LSB)")
    ),
)


def render_verification_page(
    result: Verification,
    made: Sequence[RunFact] = (),
    *,
    model: str,
    portability: Portability | None = None,
) -> str:
    """The verification as an HTML document: every tensor, and risks on other processors.

    Args:
        result: The verification.
        made: What is known of the run: names with values.
        model: What the model is called.
        portability: Risks on other processors; None if they were not examined.
    """
    at_risk = portability is not None and portability.saturable
    page = Page(
        f"Verification of {model.replace(chr(92), '/').rpartition('/')[2]}",
        describe_equality(result),
        (),
        tuple(_build_cards(result, portability)),
        (
            _build_tensors(result),
            _build_runtime(result.runtime_check),
            _build_portability(portability),
            _build_data(result, model, made),
        ),
        questions=name_command("differs-on-another-machine") if at_risk else "",
    )
    return render_html(page)


def _build_cards(result: Verification, portability: Portability | None) -> Iterator[Card]:
    differing = len(list_differing(result))
    alike = result.equal or result.differs_in_last_bits
    value = "equal" if alike or not differing else f"{plural(differing, 'tensor')} differ"
    notes = (f"{describe_compared(result)} on {plural(result.samples, 'sample')}",)
    yield Card(
        "integers", value, notes, "good" if alike else "bad" if not result.passed else "warn"
    )
    if (check := result.runtime_check) is not None:
        tone: Tone = "good" if check.passed else "bad"
        yield Card(RUNTIMES[check.runtime].title, check.verdict, (), tone)
    if portability is not None and portability.nodes:
        count = len(portability.saturable)
        text = f"{plural(count, 'node')} can saturate" if count else "same integers"
        yield Card("without VNNI", text, (), "warn" if count else "good")
        yield Card("headroom", f"{portability.bits_left:.1f} bits", ("of int32, for any input",))


def _build_tensors(result: Verification) -> Section:
    rows = tuple(
        (
            Cell(str(number), number),
            Cell(t.tensor),
            Cell(t.node),
            Cell(t.op),
            Cell(str(t.differing), t.differing, tone="bad" if t.differing else ""),
            Cell(
                str(t.differing_locally),
                t.differing_locally,
                tone="bad" if t.differing_locally else "",
            ),
            Cell(str(t.elements), t.elements),
            Cell(describe_largest(t), t.largest_share or t.largest),
        )
        for number, t in enumerate(result.tensors, 1)
    )
    lines = (*describe_counts(result), *explain_differences(result))
    note = "; ".join(explain_largest(result.tensors))
    table = Table("tensor-table", _TENSORS, rows, choices=3)
    return Section("tensors", "Tensors in execution order", [Lines(lines), table], note, "Tensors")


def _build_runtime(check: RuntimeCheck | None) -> Section:
    """How far each tensor in another runtime is from what the file says, and where nodes run."""
    if check is None:
        return Section("runtime", "Another runtime", [])
    rows = tuple(
        (
            Cell(tensor.tensor),
            Cell(tensor.node),
            Cell(tensor.op),
            Cell("equal", _ABOVE_ALL)
            if tensor.sqnr_db is None
            else Cell(
                format_decibels(tensor.sqnr_db),
                tensor.sqnr_db,
                tone="bad" if tensor.sqnr_db < check.limit_db else "",
            ),
            Cell(str(tensor.elements), tensor.elements),
        )
        for tensor in check.tensors
    )
    blocks: list[object] = [Table("runtime-table", _IN_RUNTIME, rows, choices=2)]
    if failure := describe_failure(check):
        blocks.insert(0, Lines((failure,), "warn"))
    if placed := describe_placement(check.placement):
        blocks.append(Lines(placed))
    return Section("runtime", describe_runtime_check(check), blocks, short="Runtime")


def _build_portability(result: Portability | None) -> Section:
    title = "Portability to other processors"
    if result is None:
        return Section("portability", title, [])
    blocks: list[object] = [Lines(tuple(describe_risks(result)))]
    rows = tuple(
        (
            Cell(f"{node.node} ({node.op})"),
            *(
                Cell(str(n), n)
                for n in (node.channels, node.saturable, node.elements, node.saturated)
            ),
            Cell(describe_largest(node), node.largest_share or node.largest),
        )
        for node in rank_risks(result.saturable)
    )
    note = ""
    if rows:
        blocks += [Table("risk-table", _RISKS, rows), Lines(tuple(describe_remedies(result)))]
        note = "; ".join(explain_largest(result.saturable))
    title += f", from the weights and {plural(result.samples, 'sample')}"
    return Section("portability", title, blocks, note, "Portability")


def _build_data(result: Verification, model: str, made: Sequence[RunFact]) -> Section:
    rows = [("model", model)]
    applied = result.applied_preprocess
    rows += [] if applied is None else applied.list_facts()
    blocks: list[object] = [Facts((*rows, *made))]
    if result.skipped:
        blocks.append(
            Lines(tuple(f"skipped: {name}: {why}" for name, why in result.skipped), "warn")
        )
    return Section("provenance", "How it was made", blocks)
