"""Measured times of ONNX Runtime's kernels, in float and on integers: one table for each machine.

All times are in passes. A pass is the time that QuantizeLinear and the Transpose beside it take for one element: 0.2
ns on the machine of `ORT_1_31_AVX512_VNNI`. A quantizer between layouts thus costs one pass for each element.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ptq.model.machine.ort_version import ORT_VERSION


def compute_digest(entries: Mapping[str, Any]) -> str:
    """SHA-256 of the entries of a table."""
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class OrtCostTable:
    """Times of kernels; where no other unit is named, in passes for each element of the largest tensor of a node.

    Attributes:
        name: Name by which `Target.costs` refers to the table.
        version: Version of ONNX Runtime that was measured.
        processor: Processor that was measured.
        threads: Threads that ONNX Runtime had.
        kernel_call: Passes for each call of a kernel, whatever it computes.
        integer_product_calls: Kernel calls that an integer Conv, Gemm or MatMul counts for.
        small_model: Passes of a whole model in float, below which calls and copies take longer than the rest.
        cached_elements: Elements of a float tensor that stays in the cache.
        block: float32 numbers in a register, and output channels that an integer product computes at once.
        float_operator: An operator in float, which reads and writes four bytes for each element.
        integer_operator: An operator on integers that has no number of its own.
        integer_data_movement: An operator that only moves or compares single bytes.
        lookup_table: A function of one value, run in float between quantizers.
        integer_average_pool: AveragePool on integers.
        integer_hard_swish: HardSwish on integers: a sum and a product.
        channels_first_pool: MaxPool on integers outside convolutions, which runs channels first. Passes for each
            element of the output, whatever the window.
        float_product: Passes for each multiplication in float.
        float_weight: Passes for each weight that is read in float, from a large cache or from memory.
        integer_product: Passes for each multiplication on integers.
        integer_weight: Passes for each weight that is read as an integer.
        float_conv_reorder: Passes for each input and output element of a float Conv, to reorder channels in blocks.
        block_boundary: Additional passes for each element of a quantizer where such blocks begin or end.
        float_pointwise_depth: How many times a pointwise float Conv counts a depth of less than one block: it
            reads channels first and writes blocks.
        float_depthwise: Passes for each multiplication of a depthwise float Conv, output channels in whole blocks.
        depthwise_tap: Passes of a depthwise integer Conv for each tap and output pixel.
        depthwise_tap_channel: The same, for each channel.
        depthwise_tap_odd_channel: The same, for each channel above a multiple of ``depthwise_channels``.
        depthwise_channels: Channels that a depthwise integer Conv computes at once.
        gather_group_tap: Passes of a grouped integer Conv to gather one tap of one group, for each output pixel.
        gather_point: Passes of a pointwise integer Conv to gather its inputs, for each output pixel.
        gather_point_unaligned: The same, where the depth is not a multiple of ``gather_depth`` or the outputs are
            fewer than a block.
        gather_tap: Passes of any other integer Conv to gather one tap, for each output pixel.
        gather_tap_unaligned: The same, where the depth is not a multiple of ``gather_depth``.
        gather_few_outputs: Additional passes for each output pixel, where the depth is a multiple of
            ``gather_depth`` and the outputs are fewer than a block.
        gather_depth: Channels that are gathered at once.
        integer_conv_output: Passes of an integer Conv for each element of the output.
        kernels: Passes in float and on integers of single kernels that were timed, by operator and shape
            (`build_kernel_key`); they replace the estimate.
        scales: Factors of the estimates in float and on integers, by kind of kernel (`get_kernel_kind`): how this
            machine differs from the one that the other numbers were measured on.
    """

    name: str
    version: str
    processor: str
    threads: int
    kernel_call: float
    integer_product_calls: int
    small_model: float
    cached_elements: int
    block: int
    float_operator: float
    integer_operator: float
    integer_data_movement: float
    lookup_table: float
    integer_average_pool: float
    integer_hard_swish: float
    channels_first_pool: float
    float_product: float
    float_weight: float
    integer_product: float
    integer_weight: float
    float_conv_reorder: float
    block_boundary: float
    float_pointwise_depth: int
    float_depthwise: float
    depthwise_tap: float
    depthwise_tap_channel: float
    depthwise_tap_odd_channel: float
    depthwise_channels: int
    gather_group_tap: float
    gather_point: float
    gather_point_unaligned: float
    gather_tap: float
    gather_tap_unaligned: float
    gather_few_outputs: float
    gather_depth: int
    integer_conv_output: float
    kernels: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """What was measured, as the reasons of a plan name it."""
        return f"ONNX Runtime {self.version}, CPU"

    @property
    def digest(self) -> str:
        """SHA-256 of all entries: equal for tables that decide alike."""
        entries = asdict(self)
        if not self.scales:
            del entries["scales"]  # tables of before had none
        return compute_digest(entries)

    def without_kernel_calls(self) -> OrtCostTable:
        """The same table where calling a kernel takes no time."""
        return replace(self, kernel_call=0.0)

    def version_note(self) -> str:
        """A remark for reasons where the installed ONNX Runtime is not the measured one; otherwise empty."""
        if self.version == ORT_VERSION:
            return ""
        return f" (measured on ONNX Runtime {self.version}; {ORT_VERSION} is installed)"


ORT_1_31_AVX512_VNNI = OrtCostTable(
    name="ort-1.31-avx512-vnni",
    version="1.31.1",
    processor="x86-64 with AVX512 and VNNI",
    threads=1,
    kernel_call=3_000.0,  # 0.6 µs
    integer_product_calls=2,
    small_model=250_000.0,  # 50 µs
    cached_elements=2**19,  # 2 MB
    block=16,
    float_operator=1.5,
    integer_operator=1.0,
    integer_data_movement=0.25,
    lookup_table=3.0,
    integer_average_pool=6.0,
    integer_hard_swish=2.3,
    channels_first_pool=50.0,
    float_product=0.09,
    float_weight=0.3,
    integer_product=0.024,
    integer_weight=0.15,
    float_conv_reorder=0.3,
    block_boundary=0.55,
    float_pointwise_depth=3,
    float_depthwise=0.11,
    depthwise_tap=4.5,
    depthwise_tap_channel=0.18,
    depthwise_tap_odd_channel=5.0,
    depthwise_channels=8,
    gather_group_tap=21.0,
    gather_point=10.0,
    gather_point_unaligned=25.0,
    gather_tap=4.0,
    gather_tap_unaligned=11.0,
    gather_few_outputs=60.0,
    gather_depth=4,
    integer_conv_output=0.25,
)
"""Measured on Conv of 1 to 672 channels, and on Gemm and MatMul."""

ORT_1_32_AVX512_VNNI = replace(
    ORT_1_31_AVX512_VNNI,
    name="ort-1.32-avx512-vnni",
    version="1.32.0",
    # `ptq tune` with both versions on one machine, four times in turns: relative to a float kernel, integer Add takes
    # 0.89 to 0.91 of the time in each of four shapes; the other kinds differ by less than a repetition does
    scales={"Add": (1.0, 0.9)},
)

_GIVEN: ContextVar[OrtCostTable | None] = ContextVar("given cost table", default=None)
"""The table of the user for the job that runs in this context; each thread has its own."""


@contextmanager
def use_cost_table(table: OrtCostTable | None) -> Iterator[None]:
    """Let this table decide in place of the shipped one; None changes nothing."""
    token = _GIVEN.set(table or _GIVEN.get())
    try:
        yield
    finally:
        _GIVEN.reset(token)


def get_given_cost_table() -> OrtCostTable | None:
    """The table of the user that decides in this context; None for the shipped ones."""
    return _GIVEN.get()
