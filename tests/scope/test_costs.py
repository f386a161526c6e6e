"""Passes of nodes; sums by hand, of what was measured on ONNX Runtime, are the oracle."""

from __future__ import annotations

import pytest
from networks import network, normal

from ptq.graph import Graph
from ptq.nodes import row_name
from ptq.ops import OPS
from ptq.scope.costs import Cost, cost, sizes


def costs(nodes: str, shape: tuple[int | str, ...], **weights: object) -> list[Cost]:
    graph = Graph.from_proto(network(nodes, {"x": shape}, **weights)).with_shapes()  # type: ignore[arg-type]
    size = sizes(graph)
    return [cost(node, OPS[row_name(node)], size) for node in graph.nodes]


def test_a_convolution_counts_its_products_and_what_it_gathers() -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 16, 10, 10), w=normal(32, 16, 3, 3))
    outputs, products = 32 * 64, 32 * 64 * 9 * 16
    assert found.real == pytest.approx(products * 0.09 + 0.3 * (1600 + outputs))
    assert found.integer == pytest.approx(products * 0.024 + 64 * 9 * 4)


def test_channels_that_are_not_a_multiple_of_four_are_dear_to_gather() -> None:
    ((few),) = costs("y = Conv(x, w)", (1, 3, 10, 10), w=normal(16, 3, 3, 3))
    assert few.integer == pytest.approx(16 * 64 * 27 * 0.024 + 64 * 9 * 11)
    assert few.integer > 1.5 * few.real
    ((point),) = costs("y = Conv(x, w)", (1, 3, 10, 10), w=normal(16, 3, 1, 1))
    assert point.integer == pytest.approx(1600 * 3 * 0.024 + 100 * 25)


@pytest.mark.parametrize(("channels", "more"), [(16, 4.0), (8, 4.0 + 60 / 9)])
def test_fewer_outputs_than_a_block_take_as_long_and_more_to_write(
    channels: int, more: float
) -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 8, 10, 10), w=normal(channels, 8, 3, 3))
    products = 16 * 64 * 9 * 8
    assert found.real == pytest.approx(products * 0.09 + 0.3 * (800 + channels * 64))
    assert found.integer == pytest.approx(products * 0.024 + 64 * 9 * more)


def test_groups_are_dear_to_gather() -> None:
    ((found),) = costs("y = Conv<group = 32>(x, w)", (1, 128, 10, 10), w=normal(128, 4, 3, 3))
    assert found.integer == pytest.approx(32 * (16 * 64 * 9 * 4 * 0.024 + 64 * 9 * 21))
    assert found.integer > 3 * found.real


def test_one_channel_alone_is_dear_in_integers() -> None:
    ((found),) = costs("y = Conv(x, w)", (1, 1, 400), w=normal(1, 1, 256))
    assert found.integer == pytest.approx(145 * 256 * (4.5 + 0.18 + 5))
    assert found.integer > 5 * found.real


@pytest.mark.parametrize("channels", [16, 672])
def test_a_depthwise_convolution_has_nothing_to_gain(channels: int) -> None:
    nodes = f"y = Conv<group = {channels}>(x, w)"
    ((found),) = costs(nodes, (1, channels, 10, 10), w=normal(channels, 1, 5, 5))
    assert found.integer > found.real


def test_a_product_of_matrices() -> None:
    nodes = "h = Gemm<transB = 1>(x, w)\ny = MatMul(h, v)"
    gemm, matmul = costs(nodes, (2, 8), w=normal(16, 8), v=normal(16, 4))
    assert gemm == Cost(2 * 8 * 16 * 0.08, 2 * 8 * 16 * 0.024)
    assert matmul == Cost(2 * 16 * 4 * 0.08, 2 * 16 * 4 * 0.024)


def test_a_pool_that_no_convolution_reads_runs_channels_first() -> None:
    nodes = "m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)\n"
    read = costs(nodes + "y = Conv(m, w)", (1, 4, 8, 8), w=normal(4, 4, 1, 1))[0]
    alone = costs(nodes + "y = Flatten(m)", (1, 4, 8, 8))[0]
    assert (read.integer, alone.integer) == (64, 13 * 256)


def test_what_varies_is_estimated_strides_counted() -> None:
    nodes = "c = Conv<strides = [2, 2]>(x, w)\nr = Relu(c)\ng = GlobalAveragePool(r)\ny = Relu(g)"
    found = costs(nodes, ("N", 3, "H", "W"), w=normal(8, 3, 1, 1))
    assert found[1].real == 1.5 * 8 * 64 * 64 / 4
    assert found[3].real == 1.5 * 8
