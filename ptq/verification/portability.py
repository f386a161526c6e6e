"""Portability: where another processor could compute other integers of a quantized graph.

Three risks are bounded from the weights, and then measured on samples:

    headroom     unused bits of an int32 accumulator: 31 − log2(max |acc|)
    saturation   x86 without VNNI adds pairs of uint8 × int8 products in int16, which overflows if
                 255·(|w1| + |w2|) > 32767
    ties         acc · s exactly halfway between two integers: runtimes with another tie rule differ by 1 LSB
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.core.types import FloatArray
from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.executor.arithmetics import linear, ort, ort_avx2
from ptq.executor.arithmetics.node_site import (
    Kernel,
    KernelMaker,
    Site,
    get_activation_qparams,
    get_constant_input,
    get_output_bounds,
    get_output_qparams,
    get_weight_qparams,
)
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.failure import explain_failure
from ptq.rewrite.emit.vnni_saturation import REMEDIES
from ptq.verification.ulp_order import to_ulp_order


@dataclass(frozen=True)
class NodeRisk:
    """Risks of one operator that sums products.

    Attributes:
        node: Name of the node.
        op: Its operator.
        bits_left: Unused bits of int32 for the largest accumulator of any input.
        bits_left_met: Unused bits of int32 for the largest accumulator on the samples.
        channels: Number of output channels.
        saturable: Number of output channels with a pair of weights whose products can overflow int16.
        saturated: Number of output integers on the samples that change without VNNI.
        largest: Largest change without VNNI, in LSB (in ULP for a float result).
        ties: Number of accumulators exactly halfway between two integers.
        elements: Number of output integers on the samples.
        largest_share: Of a float result, the largest change as a share of the sample's largest value; 0 for integers.
    """

    node: str
    op: str
    bits_left: float
    bits_left_met: float
    channels: int
    saturable: int
    saturated: int
    largest: int
    ties: int
    elements: int
    largest_share: float = 0.0


@dataclass(frozen=True)
class Portability:
    """Risks of a graph.

    Attributes:
        samples: Number of samples.
        nodes: Nodes that sum products with constant weights, in execution order.
    """

    samples: int
    nodes: tuple[NodeRisk, ...]

    @property
    def bits_left(self) -> float:
        """Smallest headroom of any node, for any input."""
        return min((node.bits_left for node in self.nodes), default=31.0)

    @property
    def saturable(self) -> tuple[NodeRisk, ...]:
        """Nodes that can saturate int16 without VNNI."""
        return tuple(node for node in self.nodes if node.saturable)

    @property
    def saturated(self) -> tuple[NodeRisk, ...]:
        """Nodes with integers that change on the samples without VNNI."""
        return tuple(node for node in self.nodes if node.saturated)

    @property
    def ties(self) -> int:
        """Number of accumulators exactly halfway between two integers."""
        return sum(node.ties for node in self.nodes)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Remedies against saturation; empty if no node can saturate."""
        return REMEDIES if self.saturable else ()

    @property
    def summary(self) -> dict[str, Any]:
        """Figures of the whole graph, by name."""
        return {
            "bits_left": self.bits_left,
            "ties": self.ties,
            "saturable": [node.node for node in self.saturable],
            "saturated": [node.node for node in self.saturated],
            "remedies": list(self.remedies),
        }


def measure_portability(graph: Graph, samples: Iterable[Sample]) -> Portability:
    """Bound the risks of a quantized graph from its weights, and measure them on samples.

    Raises:
        DataError: There is no sample, or an input of a sample is missing.
    """
    probes: dict[str, _Probe] = {}

    def with_probe(op: str) -> KernelMaker:
        def make(site: Site) -> Kernel:
            kernel = ort.KERNELS[op](site)
            if get_constant_input(site, 1) is None:
                return kernel
            return probes.setdefault(site.name, _Probe(site, kernel)).run

        return make

    executor = Executor(graph, "ort", replaced={op: with_probe(op) for op in _PRODUCTS})
    count = 0
    for sample in samples:
        with name_sample(sample.name), explain_failure(graph, sample.feed):
            executor.run(sample.feed)
        count += 1
    if not count:
        raise DataError("no sample to measure portability on; give at least one")
    return Portability(count, tuple(probe.to_node_risk() for probe in probes.values()))


_PRODUCTS: Mapping[str, Any] = {
    "Conv": linear.make_conv_kernel,
    "Gemm": linear.make_gemm_kernel,
    "MatMul": linear.make_matmul_kernel,
}


@dataclass(eq=False)
class _Probe:
    """Runs one node and records its accumulators, and its results without VNNI."""

    site: Site
    kernel: Kernel
    peak: int = 0
    ties: int = 0
    saturated: int = 0
    largest: int = 0
    largest_share: float = 0.0
    elements: int = 0
    _exact: Kernel = field(init=False)
    _saturating: Kernel | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        site = self.site
        self._exact = _PRODUCTS[site.op](site, lambda acc, channels: acc.astype(np.int32))
        if ort_avx2.find_saturable_channels(site).any():
            self._saturating = ort_avx2.KERNELS[site.op](site)

    def run(self, inputs: Any) -> NDArray[Any]:
        q, acc = self.kernel(inputs), self._exact(inputs)
        self.elements += q.size
        self.peak = max(self.peak, int(np.abs(acc.astype(np.int64)).max(initial=0)))
        self.ties += self._count_ties(acc)
        if self._saturating is not None:
            other = self._saturating(inputs)
            changes = np.abs(to_ulp_order(q) - to_ulp_order(other))
            self.saturated += int(np.count_nonzero(changes))
            self.largest = max(self.largest, int(changes.max(initial=0)))
            if q.dtype.kind == "f" and changes.any():
                share = float(
                    np.abs(q - other).max() / max(np.abs(q).max(), np.finfo(q.dtype).tiny)
                )
                self.largest_share = max(self.largest_share, share)
        return q

    def to_node_risk(self) -> NodeRisk:
        reachable = ort_avx2.find_saturable_channels(self.site)
        return NodeRisk(
            node=self.site.name,
            op=self.site.op,
            bits_left=_compute_bits_left(_compute_largest_sum(self.site)),
            bits_left_met=_compute_bits_left(self.peak),
            channels=reachable.size,
            saturable=int(np.count_nonzero(reachable)),
            saturated=self.saturated,
            largest=self.largest,
            ties=self.ties,
            elements=self.elements,
            largest_share=self.largest_share,
        )

    def _count_ties(self, acc: NDArray[Any]) -> int:
        if self.site.outputs[0] is None:
            return 0  # a float result is not rounded
        y, x = get_output_qparams(self.site), get_activation_qparams(self.site)
        alpha = np.float32(self.site.attrs.get("alpha", 1.0))
        scale: FloatArray = np.asarray(
            ((alpha * x.scale) * get_weight_qparams(self.site).scale) / y.scale
        )
        scaled = acc.astype(np.float32) * scale
        lo, hi = (bound - int(y.zero_point) for bound in get_output_bounds(self.site))
        tied = (np.abs(scaled - np.rint(scaled)) == 0.5) & (scaled > lo) & (scaled < hi)
        return int(np.count_nonzero(tied))


def _compute_largest_sum(site: Site) -> int:
    """Largest magnitude of the accumulator of any output channel, for any input."""
    x, w, columns = (
        get_activation_qparams(site),
        get_weight_qparams(site),
        ort_avx2.view_weight_columns(site).astype(np.int64),
    )
    zeros = (
        np.broadcast_to(w.zero_point, columns.shape[-1:])
        if w.zero_point.size == 1
        else w.zero_point
    )
    centred = columns - np.resize(zeros, columns.shape[-1])
    lowest, highest = x.qtype.lo - int(x.zero_point), x.qtype.hi - int(x.zero_point)
    top = np.maximum(centred * lowest, centred * highest).sum(0)
    bottom = np.minimum(centred * lowest, centred * highest).sum(0)
    bias = get_constant_input(site, 2)
    offset = 0 if bias is None else bias.astype(np.int64).reshape(-1)
    return int(max(np.abs(top + offset).max(initial=0), np.abs(bottom + offset).max(initial=0)))


def _compute_bits_left(largest: int) -> float:
    return 31.0 - math.log2(max(largest, 1))
