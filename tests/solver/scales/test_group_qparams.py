"""Where the values of an unobserved tensor are to be found; small graphs read by eye are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.model.graph import Graph
from ptq.solver.scales.group_qparams import find_tensors_holding_values


@pytest.mark.parametrize(
    ("nodes", "observed", "expected"),
    [
        ("y = Relu(x)", {"y"}, ["y"]),
        ("y = Relu(x)", {"x"}, None),
        ("y = MaxPool<kernel_shape=[2,2]>(x)", {"x"}, ["x"]),
        ("a = Flatten(x)\ny = Unsqueeze(a, k)", {"x"}, ["x"]),
        ("y = Concat<axis=1>(x, z)", {"x", "z"}, ["x", "z"]),
        ("y = Concat<axis=1>(x, z)", {"x"}, None),
        ("y = Concat<axis=1>(x, c)", {"x"}, ["x", "c"]),
        ("y = Pad(x, p, f)", {"x"}, ["x", "f"]),
        ("y = AveragePool<kernel_shape=[2,2]>(x)", {"x"}, None),
        ("y = Sin(x)", {"x"}, None),
    ],
)
def test_what_was_moved_is_found_where_it_came_from(
    nodes: str, observed: set[str], expected: list[str] | None
) -> None:
    model = build_network(
        nodes,
        {"x": (1, 3, 8, 8), "z": (1, 3, 8, 8)},
        k=np.array([0], np.int64),
        c=gaussian_array(1, 3, 8, 8),
        p=np.zeros(8, np.int64),
        f=np.float32(-3),
    )
    (node,) = [n for n in Graph.from_proto(model).nodes if n.outputs[0].name == "y"]
    found = find_tensors_holding_values(node.outputs[0], observed)
    assert (None if found is None else [v.name for v in found]) == expected
