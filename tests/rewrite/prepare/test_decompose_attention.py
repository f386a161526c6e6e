"""Oracle: ONNX Runtime's own Attention."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array, sqnr_db
from old_runtime import skip_before

from ptq.api.quantize import quantize
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare

SHAPES = {"q": (1, 2, 6, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8)}


@pytest.mark.parametrize("attributes", ["", "<is_causal = 1>"])
def test_the_products_of_an_attention_are_quantized(attributes: str) -> None:
    skip_before((1, 26), "does not run all operators of opset 23")
    model = build_network(f"y = Attention{attributes}(q, k, v)", SHAPES, opset=23)
    data = {
        name: gaussian_array(4, *shape, seed=i) for i, (name, shape) in enumerate(SHAPES.items())
    }
    result = quantize(model, data, threads=1)
    fates = [(row.op, row.fate) for row in result.report.nodes]
    assert fates.count(("MatMul", "int8")) == 2
    feed = {name: array[0] for name, array in data.items()}
    truth = Session(Graph.from_proto(model)).run(feed)[0]
    assert sqnr_db(truth, np.asarray(Session(result.graph).run(feed)[0])) > 35


def test_an_attention_whose_scores_are_an_output_is_not_decomposed() -> None:
    skip_before((1, 26), "does not run all operators of opset 23")
    line = "y, , , s = Attention<qk_matmul_output_mode = 1>(q, k, v)"
    model = build_network(line, SHAPES, opset=23, outputs=("y", "s"))
    prepared = prepare(Graph.from_proto(model))
    assert [node.op_type for node in prepared.graph.nodes] == ["Attention"]
    assert prepared.describe_changes()[0].startswith(
        "decompose attention: not applied to 1 Attention node: "
    )


@pytest.mark.parametrize("mask", ["m", ""])
def test_an_attention_with_a_cache_is_kept_without_a_mask_and_the_report_says_why(
    mask: str,
) -> None:
    skip_before((1, 26), "does not run all operators of opset 23")
    past = {"pk": (1, 2, 3, 8), "pv": (1, 2, 3, 8)}
    model = build_network(
        f"y, nk, nv = Attention(q, k, v, {mask}, pk, pv)",
        SHAPES | past,
        opset=23,
        outputs=("y", "nk", "nv"),
        **({"m": np.zeros((6, 9), np.float32)} if mask else {}),
    )
    first = prepare(Graph.from_proto(model)).describe_changes()[0]
    assert first.startswith(
        "decomposed 1 Attention" if mask else "decompose attention: not applied"
    )
    assert first.endswith(
        "Softmax" if mask else "such as the mask, is omitted before one that is given"
    )
