"""Passes of nodes; sums by hand, of what was measured on ONNX Runtime, are the oracle."""

from __future__ import annotations

import pytest
from networks import build_network, gaussian_array

from ptq.core.ops import OPS
from ptq.model.graph import Graph
from ptq.model.node import get_spec_name
from ptq.solver.partition.cost_model import KernelCost, estimate_sizes, price_kernel
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI

CALL = 3000


def costs(nodes: str, shape: tuple[int | str, ...], **weights: object) -> list[KernelCost]:
    graph = Graph.from_proto(build_network(nodes, {"x": shape}, **weights)).with_shapes()  # type: ignore[arg-type]
    size = estimate_sizes(graph)
    return [
        price_kernel(node, OPS[get_spec_name(node)], size, ORT_1_31_AVX512_VNNI)
        for node in graph.nodes
    ]


def test_a_convolution_counts_its_products_and_what_it_gathers() -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 16, 10, 10), w=gaussian_array(32, 16, 3, 3))
    outputs, products = 32 * 64, 32 * 64 * 9 * 16
    weights = 32 * 9 * 16
    real = products * 0.09 + 0.3 * (1600 + outputs) + 0.3 * weights + CALL
    assert found.float_cost == pytest.approx(real)
    integer = products * 0.024 + 64 * 9 * 4 + 0.25 * outputs + 0.15 * weights + 2 * CALL
    assert found.integer_cost == pytest.approx(integer)


def test_a_layer_of_one_pixel_takes_as_long_as_its_weights_take_to_read() -> None:
    # measured, µs: 56 in float, 37 in integers
    ((found),) = costs("y = Conv(x, w)", (1, 1024, 1, 1), w=gaussian_array(1024, 1024, 1, 1))
    assert found.float_cost == pytest.approx(56 * 5000, rel=0.5)
    assert found.integer_cost == pytest.approx(37 * 5000, rel=0.3)


def test_channels_are_whole_blocks_in_float_on_both_sides() -> None:
    even, odd = (
        costs("y = Conv(x, w)", (1, n, 64, 64), w=gaussian_array(32, n, 3, 3))[0] for n in (32, 20)
    )
    assert odd.float_cost == pytest.approx(even.float_cost, rel=0.02)
    assert odd.integer_cost < 0.8 * even.integer_cost


def test_fewer_channels_than_a_block_are_slow_to_multiply_in_float_pixel_by_pixel() -> None:
    # measured, µs: 58 in float, 22 in integers
    ((found),) = costs("y = Conv(x, w)", (1, 8, 56, 56), w=gaussian_array(24, 8, 1, 1))
    assert found.float_cost > 1.9 * found.integer_cost


def test_channels_that_are_not_a_multiple_of_four_are_slow_to_gather() -> None:
    ((few),) = costs("y = Conv(x, w)", (1, 3, 10, 10), w=gaussian_array(16, 3, 3, 3))
    own = 16 * 27 * 0.15 + 16 * 64 * 0.25 + 2 * CALL  # weights, outputs, call
    assert few.integer_cost == pytest.approx(16 * 64 * 27 * 0.024 + 64 * 9 * 11 + own)
    large = costs("y = Conv(x, w)", (1, 3, 66, 66), w=gaussian_array(16, 3, 3, 3))[0]
    assert large.integer_cost > 1.5 * large.float_cost
    ((point),) = costs("y = Conv(x, w)", (1, 3, 10, 10), w=gaussian_array(16, 3, 1, 1))
    own = 16 * 3 * 0.15 + 1600 * 0.25 + 2 * CALL
    assert point.integer_cost == pytest.approx(1600 * 3 * 0.024 + 100 * 25 + own)


@pytest.mark.parametrize(("channels", "more"), [(16, 4.0), (8, 4.0 + 60 / 9)])
def test_fewer_outputs_than_a_block_take_as_long_and_more_to_write(
    channels: int, more: float
) -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 8, 10, 10), w=gaussian_array(channels, 8, 3, 3))
    products = 16 * 64 * 9 * 8
    weights, outputs = channels * 8 * 9, channels * 64
    real = products * 0.09 + 0.3 * (800 + outputs) + 0.3 * weights + CALL
    assert found.float_cost == pytest.approx(real)
    integer = products * 0.024 + 64 * 9 * more + 0.25 * outputs + 0.15 * weights + 2 * CALL
    assert found.integer_cost == pytest.approx(integer)


def test_groups_are_slow_to_gather() -> None:
    ((found),) = costs(
        "y = Conv<group = 32>(x, w)", (1, 128, 10, 10), w=gaussian_array(128, 4, 3, 3)
    )
    own = 128 * 4 * 9 * 0.15 + 128 * 64 * 0.25 + 2 * CALL
    assert found.integer_cost == pytest.approx(32 * (16 * 64 * 9 * 4 * 0.024 + 64 * 9 * 21) + own)
    assert found.integer_cost > 3 * found.float_cost


def test_one_channel_alone_is_slow_in_integers() -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 1, 400), w=gaussian_array(1, 1, 256))
    assert found.integer_cost == pytest.approx(145 * 256 * (4.5 + 0.18 + 5) + 2 * CALL)
    assert found.integer_cost > 5 * found.float_cost


@pytest.mark.parametrize("channels", [16, 672])
def test_a_depthwise_convolution_has_nothing_to_gain(channels: int) -> None:
    nodes = f"y = Conv<group = {channels}>(x, w)"
    ((found),) = costs(nodes, (1, channels, 10, 10), w=gaussian_array(channels, 1, 5, 5))
    assert found.integer_cost > found.float_cost


def test_a_product_of_matrices() -> None:
    nodes = "h = Gemm<transB = 1>(x, w)\ny = MatMul(h, v)"
    gemm, matmul = costs(nodes, (2, 8), w=gaussian_array(16, 8), v=gaussian_array(16, 4))
    for found, weights in ((gemm, 8 * 16), (matmul, 16 * 4)):
        real, integer = weights * (2 * 0.09 + 0.3), weights * (2 * 0.024 + 0.15)
        assert (found.float_cost, found.integer_cost) == pytest.approx(
            (real + CALL, integer + 2 * CALL)
        )


@pytest.mark.parametrize(("rows", "real", "integer"), [(2, 92, 33), (8, 221, 64), (64, 1428, 323)])
def test_a_product_of_few_rows_takes_as_long_as_its_weights_take_to_read(
    rows: int, real: float, integer: float
) -> None:
    # measured, µs, among other layers
    ((found),) = costs("y = Gemm(x, w)", (rows, 1024), w=gaussian_array(1024, 1024))
    assert found.float_cost == pytest.approx(real * 5000, rel=0.4)
    assert found.integer_cost == pytest.approx(integer * 5000, rel=0.5)


def test_rows_that_a_view_makes_of_the_batch_and_what_follows_it_count() -> None:
    nodes = "r = Reshape(x, s)\ny = Gemm(r, w)\nz = Gemm(y, v)"
    shapes = {"w": gaussian_array(64, 64), "v": gaussian_array(64, 64), "s": [-1, 64]}
    found = costs(nodes, ("N", 50, 64), **shapes)
    assert found[1].float_cost == found[2].float_cost
    assert found[1].float_cost == pytest.approx((50 * 0.09 + 0.3) * 64 * 64 + CALL)


def test_what_gathers_values_of_all_samples_for_each_counts_one_sample() -> None:
    # as torch exports a strided view: all values in a row, then those of each sample by their places
    nodes = "f = Reshape(x, s)\ni = Cast<to = 7>(p)\ng = Gather(f, i)\ny = Relu(g)"
    model = build_network(nodes, {"x": ("N", 50, 64), "p": ("N", 64)}, s=[-1])
    graph = Graph.from_proto(model).with_shapes()
    size = estimate_sizes(graph)
    assert [size(node.outputs[0]) for node in graph.nodes] == [50 * 64, 64, 64, 64]


def test_a_first_dimension_of_its_own_counts_as_that_of_the_input_with_its_name() -> None:
    nodes = (
        "f = Reshape(x, s)\nr = Relu(f)\nm = ReduceMax<axes = [1], keepdims = 0>(r)\ny = Add(m, u)"
    )
    model = build_network(nodes, {"x": ("N", 50, 64)}, s=[-1, 64], u=gaussian_array(3, 1))
    graph = Graph.from_proto(model).with_shapes()
    size = estimate_sizes(graph)
    # the flat tensor and its maxima have a row for each of 50; the sum has three, each of an unknown length
    assert [size(node.outputs[0]) for node in graph.nodes] == [3200, 3200, 50, 3 * 64]


def test_a_pool_that_no_convolution_reads_runs_channels_first() -> None:
    nodes = "m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)\n"
    read = costs(nodes + "y = Conv(m, w)", (1, 4, 8, 8), w=gaussian_array(4, 4, 1, 1))[0]
    alone = costs(nodes + "y = Flatten(m)", (1, 4, 8, 8))[0]
    assert (read.integer_cost, alone.integer_cost) == (64 + CALL, 50 * 64 + CALL)


def test_what_varies_is_estimated_strides_counted() -> None:
    nodes = "c = Conv<strides = [2, 2]>(x, w)\nr = Relu(c)\ng = GlobalAveragePool(r)\ny = Relu(g)"
    found = costs(nodes, ("N", 3, "H", "W"), w=gaussian_array(8, 3, 1, 1))
    assert found[1].float_cost == 1.5 * 8 * 64 * 64 / 4 + CALL
    assert found[3].float_cost == 1.5 * 8 + CALL
