"""Models that ONNX's checker lets through and that no runtime takes; each ended in a fault of ptq once."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.core.errors import ModelError, UnsupportedError
from ptq.model.proto.validate import validate


def without_outputs() -> onnx.ModelProto:
    model = build_network("y = Relu(x)")
    del model.graph.output[:]
    return model


def listed_short() -> onnx.ModelProto:
    model = build_network("y = Add(x, w)", w=np.ones(8, np.float32))
    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8], float_data=[1, 2, 3])
    model.graph.initializer[0].CopyFrom(short)
    return model


def split_in_another_number() -> onnx.ModelProto:
    model = build_network("y, z = Split<axis=1, num_outputs=2>(x)", {"x": (1, 4)}, ("y",), opset=18)
    model.graph.node[0].output.append("more")
    return model


def in_no_groups() -> onnx.ModelProto:
    """ONNX Runtime divides by their number."""
    return build_network(
        "c = Relu(x)\ny = ConvTranspose<group=0>(c, w)", w=gaussian_array(3, 3, 1, 1)
    )


def with_no_heads() -> onnx.ModelProto:
    """ONNX Runtime divides by their number."""
    return build_network(
        "y = Attention<q_num_heads=0, kv_num_heads=2>(x, x, x)", {"x": (1, 2, 4)}, opset=23
    )


def with_no_heads_of_keys() -> onnx.ModelProto:
    return build_network(
        "y = Attention<q_num_heads=2, kv_num_heads=0>(x, x, x)", {"x": (1, 2, 4)}, opset=23
    )


def without_one_of_many() -> onnx.ModelProto:
    """ONNX Runtime reads it all the same."""
    return build_network("c = Relu(x)\ny = Max(c, , c)")


def listed_long() -> onnx.ModelProto:
    model = build_network("y = Add(x, w)", w=np.ones(8, np.float32))
    model.graph.initializer[0].dims[0] = 1
    return model


def too_few_pads() -> onnx.ModelProto:
    made = build_network(
        "c = Pad(x, p)\ny = Conv(c, w)", p=np.ones(8, np.int64), w=gaussian_array(4, 3, 1, 1)
    )
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(7, np.int64), "p"))
    return made


def axis_beyond() -> onnx.ModelProto:
    model = build_network("c = Relu(x)\ny = Softmax<axis=1>(c)")
    model.graph.node[1].attribute[0].i = 99
    return model


def from_the_future() -> onnx.ModelProto:
    model = build_network("y = Relu(x)")
    model.opset_import[0].version = 99
    return model


def named_without_text() -> onnx.ModelProto:
    named = build_network("y = Relu(x)").SerializeToString().replace(b"network", b"net\x9cork")
    return onnx.ModelProto.FromString(named)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (named_without_text, r"not UTF-8: b'net\x9cork'"),
        (from_the_future, "has opset 99"),
        (without_outputs, "has no outputs"),
        (listed_short, "tensor w of shape [8] is damaged"),
        (split_in_another_number, "declares 2 outputs but has 3"),
        (in_no_groups, "ConvTranspose y has group 0"),
        (with_no_heads, "Attention y has q_num_heads 0"),
        (with_no_heads_of_keys, "Attention y has kv_num_heads 0"),
        (without_one_of_many, "Max y has an empty optional input"),
        (too_few_pads, "Pad"),
        (listed_long, "tensor w of shape [1] is damaged"),
    ],
)
def test_an_unsound_model_is_refused_in_one_line(made, said: str, tmp_path: Path) -> None:
    onnx.save(made(), tmp_path / "model.onnx")
    with pytest.raises(ModelError) as caught:
        ptq.inspect(tmp_path / "model.onnx")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def _with_map(text: str, value: onnx.ValueInfoProto) -> onnx.ModelProto:
    inputs = {"x": (1, 3)}
    model = build_network(text, inputs, ("y",), domains={"ai.onnx.ml": 3})
    (model.graph.output if "ZipMap" in text else model.graph.input).append(value)
    return model


def test_a_map_is_refused_with_what_to_do() -> None:
    floats = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    zipped = _with_map(
        "y = Relu(x)\nz = ai.onnx.ml.ZipMap<classlabels_int64s=[0, 1, 2]>(y)",
        helper.make_value_info("z", helper.make_sequence_type_proto(floats)),
    )
    zipped.graph.node[1].name = "zip"
    with pytest.raises(UnsupportedError) as caught:
        ptq.inspect(zipped)
    assert str(caught.value) == (
        "output z of the model, the result of ZipMap (zip), is of type Map, which ptq does not support; "
        "export without ZipMap: in skl2onnx, options={id(model): {'zipmap': False}}"
    )
    counted = _with_map("y = Relu(x)", helper.make_value_info("words", floats))
    with pytest.raises(UnsupportedError, match="input words of the model is of type Map"):
        ptq.inspect(counted)


def test_an_input_may_be_left_out_where_the_opset_says_so() -> None:
    """A Scan of opset 8 has an optional input first, where later ones have but states and what is scanned."""
    model = build_network("y = Relu(x)")
    model.graph.node[0].op_type = "Scan"
    model.graph.node[0].input[:] = ["", "x", "x"]
    model.opset_import[0].version = 8
    validate(model, "the model")
    model.opset_import[0].version = 9
    with pytest.raises(ModelError, match="Scan y has an empty optional input"):
        validate(model, "the model")


def test_an_axis_beyond_the_rank_is_refused_with_the_node(tmp_path: Path) -> None:
    onnx.save(axis_beyond(), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 8, 8), np.float32))
    with pytest.raises(ModelError, match="Softmax"):
        ptq.quantize(tmp_path / "model.onnx", tmp_path / "x.npy")


def test_more_weight_than_a_message_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptq.model.proto.validate.MAX_PROTO_BYTES", 10)
    with pytest.raises(ModelError, match="the limit is 2 GB"):
        ptq.inspect(build_network("y = Add(x, w)", w=np.ones(8, np.float32)))


def calling(count: int, times: int) -> onnx.ModelProto:
    """Functions of which each calls the one before it so many times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(count):
        names = [f"t{i}" for i in range(times + 1)]
        op, domain = (f"F{number - 1}", "own") if number else ("Relu", "")
        calls = [
            helper.make_node(op, [a], [b], domain=domain) for a, b in itertools.pairwise(names)
        ]
        functions.append(
            helper.make_function("own", f"F{number}", ["t0"], [names[-1]], calls, opsets)
        )
    model = build_network("y = Relu(x)")
    model.graph.node[0].op_type, model.graph.node[0].domain = f"F{count - 1}", "own"
    model.opset_import.append(opsets[1])
    model.functions.extend(functions)
    return model


@pytest.mark.parametrize(("count", "times"), [(30, 2), (2000, 1)], ids=["too often", "too deep"])
def test_endless_recursion_of_functions_is_refused_before_they_are_inlined(
    count: int, times: int
) -> None:
    with pytest.raises(ModelError, match="functions that nest too deeply"):
        ptq.inspect(calling(count, times))


def test_functions_that_call_others_are_inlined() -> None:
    assert [node.op for node in ptq.inspect(calling(5, 2)).nodes] == ["Relu"] * 32
