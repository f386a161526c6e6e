"""Verification of a `.tflite` file: LiteRT's kernels against the executor on the graph that the flatbuffer holds.

The reference kernels show every tensor; each is compared end to end, and node by node on LiteRT's own integers. The
default kernels (XNNPACK) show only the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.executor.arithmetics import add_version
from ptq.executor.litert_comparison import ARITHMETIC_OF, Tally, compare_with_executor
from ptq.model.graph import Graph
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.tflite.interpreter import Kernels, get_litert_version
from ptq.model.tflite.parsed import get_border_name, parse_tflite
from ptq.verification.runtime_check import NO_SAMPLES
from ptq.verification.verify import TensorDifference, Verification

_DEFAULT = "litert"


def verify_tflite(
    content: bytes, graph: Graph, samples: Iterable[Sample], *, arithmetic: str
) -> Verification:
    """Compare LiteRT and the executor on a `.tflite` file.

    Args:
        content: The file.
        graph: Its graph (`ptq.model.tflite.read`).
        samples: One feed each.
        arithmetic: ``litert-xnnpack`` runs LiteRT's default kernels; every other one its reference kernels. ``ort``,
            the default for ONNX models, stands for ``litert``.

    Raises:
        UnsupportedError: ``ai-edge-litert`` is not installed, or the reference kernels would end the process.
        DataError: There is no sample, or one does not fit.
    """
    name = _DEFAULT if arithmetic == "ort" else arithmetic
    kernels: Kernels = "xnnpack" if name == ARITHMETIC_OF["xnnpack"] else "reference"
    model = parse_tflite(content)
    inner = {t.name: tuple(range(len(t.signature))) for t in model.tensors if t.params is not None}
    ends = {*model.inputs, *model.outputs}
    borders = {get_border_name(name): name for name in inner if name in ends}
    found = compare_with_executor(
        content, graph, (sample.feed for sample in samples), kernels=kernels, orders=inner,
        arithmetic=name, borders=borders,
    )  # fmt: skip
    if not found.samples:
        raise DataError(NO_SAMPLES)
    tallies = [*found.tensors.items(), *found.outputs.items()]
    words = (
        "reference kernels" if kernels == "reference" else "default kernels (XNNPACK), outputs only"
    )
    return Verification(
        arithmetic=name,
        optimized=True,
        samples=found.samples,
        tensors=tuple(_describe(tensor, tally) for tensor, tally in tallies),
        islands=found.islands,
        floats=(),
        intact=True,
        exact_products=has_exact_int8_sums(),
        arithmetic_version=add_version(name),
        runtime=f"LiteRT {get_litert_version()}, {words},",
    )


def _describe(tensor: str, tally: Tally) -> TensorDifference:
    return TensorDifference(
        tensor, tally.node, tally.op, tally.elements, tally.differing, tally.largest,
        tally.differing_locally, tally.largest_share,
    )  # fmt: skip
