"""Every operator of LiteRT's 8-bit specification that ONNX can say, as a `.tflite` file in LiteRT's interpreter.

The oracle is LiteRT itself, with its reference kernels forced: its results equal those of the integer executor in the
arithmetic ``litert``, bit for bit.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from litert_cases import CASES, feeds_of, graph_of

from ptq.executor.executor import Executor
from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph
from ptq.rewrite.tflite.write import DEFAULT_TFLITE, TfliteOptions

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

from ptq.model.tflite.interpreter import LitertModel, parse_model
from ptq.model.tflite.schema import load_schema


def builtins_of(content: bytes) -> Counter[str]:
    """The builtin operators of a file, counted."""
    numbers = {v: k for k, v in vars(load_schema().BuiltinOperator).items() if isinstance(v, int)}
    model = parse_model(content)
    [graph] = model.subgraphs
    return Counter(numbers[model.operatorCodes[o.opcodeIndex].builtinCode] for o in graph.operators)


def assert_equal_in_litert(
    graph: Graph, batch: int = 2, options: TfliteOptions = DEFAULT_TFLITE
) -> bytes:
    content = encode_tflite(graph, options).content
    feed = feeds_of(graph, batch)
    ours = Executor(graph, "litert").run(feed)
    theirs = LitertModel(content, kernels="reference").run(feed)
    for name, array in ours.items():
        assert array.shape == theirs[name].shape
        np.testing.assert_array_equal(theirs[name], array)
        assert np.unique(array).size > 1, "the case tells nothing"
    return content


@pytest.mark.parametrize("case", CASES)
def test_an_operator_computes_the_executors_integers_in_litert(case: str) -> None:
    expected, _ = CASES[case]
    content = assert_equal_in_litert(graph_of(case))
    found = {*builtins_of(content)} - ({"QUANTIZE", "DEQUANTIZE"} - {*expected.split()})
    assert found == {*expected.split()}
