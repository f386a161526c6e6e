"""Models of more weight than a message may hold, the limit set low; the oracle is the same model in one piece."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network, random_feeds
from old_runtime import skip_before
from onnx import TensorProto, helper, numpy_helper

import ptq
from ptq.core.errors import ModelError, PtqError
from ptq.model.graph import Graph
from ptq.model.node import get_constant
from ptq.model.proto import external_data
from ptq.model.session.session import Session

RANDOM = np.random.default_rng(0)
MODEL = build_network(
    "a = Gemm(x, w, b)\nc = Relu(a)\ny = MatMul(c, v)",
    {"x": (1, 32)},
    w=RANDOM.normal(size=(32, 64)).astype(np.float32),
    b=RANDOM.normal(size=64).astype(np.float32),
    v=RANDOM.normal(size=(64, 40)).astype(np.float32),
)
FEEDS = random_feeds(MODEL)
_LARGE = RANDOM.normal(size=(256, 256)).astype(np.float32)


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that all of the model's weights pass, quantized too."""
    monkeypatch.setattr(external_data, "MAX_PROTO_BYTES", 2000)
    monkeypatch.setattr("ptq.model.session.session._COPY_LIMIT", 2000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The model in a file and its weights in another."""
    folder = tmp_path / "float"
    folder.mkdir()
    copy = onnx.ModelProto()
    copy.CopyFrom(MODEL)
    place = folder / "big.onnx"
    onnx.save(copy, place, save_as_external_data=True, location="w.bin", size_threshold=0)
    return place


def run(model: str | bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, feed)[0] for feed in FEEDS])


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_model_beyond_the_limit_gives_the_integers_of_one_below(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    result = ptq.quantize(path, FEEDS, form=form)
    written = tmp_path / "out.onnx"
    result.save(written)
    assert sorted(os.listdir(tmp_path)) == ["float", "out.onnx", "out.onnx.data"]
    monkeypatch.undo()
    whole = ptq.quantize(MODEL, FEEDS, form=form)
    np.testing.assert_array_equal(run(str(written)), run(whole.graph.to_bytes()))
    expected, got = weights(whole.model), weights(onnx.load(written))
    assert expected.keys() == got.keys()
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


def test_a_result_below_the_limit_is_one_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_data, "MAX_PROTO_BYTES", 12000)
    ptq.quantize(path, FEEDS).save(tmp_path / "out.onnx")
    assert sorted(os.listdir(tmp_path)) == ["float", "out.onnx"]
    run((tmp_path / "out.onnx").read_bytes())


@pytest.mark.usefixtures("low")
def test_what_is_found_of_a_model_in_parts_is_what_is_found_of_it_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Graph.load(path)
    assert parts.digest() == Graph.load(path).digest() == parts.copy().digest()
    fates = [(row.name, row.fate, row.why) for row in ptq.inspect(path).nodes]
    sensitive = ptq.sensitivity(path, FEEDS)
    monkeypatch.undo()
    assert fates == [(row.name, row.fate, row.why) for row in ptq.inspect(MODEL).nodes]
    assert [row.node for row in sensitive.nodes] == [
        row.node for row in ptq.sensitivity(MODEL, FEEDS).nodes
    ]


@pytest.mark.usefixtures("low")
def test_one_weight_more_is_another_digest() -> None:
    other = onnx.ModelProto()
    other.CopyFrom(MODEL)
    changed = numpy_helper.to_array(other.graph.initializer[2]).copy()
    changed[-1, -1] += 1
    other.graph.initializer[2].CopyFrom(numpy_helper.from_array(changed, "v"))
    assert Graph.from_proto(other).digest() != Graph.from_proto(MODEL).digest()


@pytest.mark.usefixtures("low")
def test_no_file_is_overwritten_by_the_weights(path: Path, tmp_path: Path) -> None:
    (tmp_path / "out.onnx.data").write_bytes(b"someone's")
    ptq.quantize(path, FEEDS).save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").read_bytes() == b"someone's"
    run(str(tmp_path / "out.onnx"))


@pytest.mark.usefixtures("low")
def test_of_a_model_that_cannot_be_written_no_weights_are_left(path: Path, tmp_path: Path) -> None:
    result = ptq.quantize(path, FEEDS)
    (tmp_path / "folder.onnx").mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(PtqError, match="is not a regular file"):
        result.save(tmp_path / "folder.onnx")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.usefixtures("low")
def test_a_model_in_parts_has_no_bytes() -> None:
    with pytest.raises(ModelError, match="too many for one message"):
        Graph.from_proto(MODEL).to_bytes()


@pytest.mark.parametrize(
    "limits", [(external_data.MAX_PROTO_BYTES, 100), (2000, external_data.INLINE_BYTES)]
)
def test_weights_set_aside_come_back_in_their_order(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    graph = Graph.from_proto(MODEL)
    whole = graph.with_shapes().with_opset(18).to_bytes()
    monkeypatch.setattr(external_data, "MAX_PROTO_BYTES", limits[0])
    monkeypatch.setattr(external_data, "INLINE_BYTES", limits[1])
    parts = Graph.from_proto(MODEL).with_shapes().with_opset(18)
    monkeypatch.undo()
    assert parts.to_bytes() == whole


def test_what_a_library_is_asked_holds_no_large_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_data, "INLINE_BYTES", 100)
    proto, aside = external_data.detach_weights(Graph.from_proto(MODEL).model)
    assert aside.initializer_names == tuple(aside.tensors) == ("w", "b", "v")
    assert not proto.graph.initializer
    assert [value.name for value in proto.graph.input] == ["x", "w", "b", "v"]


@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "BFLOAT16", "FLOAT8E4M3FN", "INT4"])
def test_a_session_reads_large_weights_of_any_type(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Against ONNX Runtime given the same model in one piece."""
    if dtype == "INT4":
        skip_before((1, 23), "has no Cast of int4")
    kind = onnx.TensorProto.DataType.Value(dtype)
    model = build_network("c = Cast<to = 1>(w)\ny = MatMul(x, c)", {"x": (1, 32)}, opset=21)
    values = RANDOM.normal(size=(32, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.helper.make_tensor("w", kind, values.shape, values.ravel()))
    monkeypatch.setattr(external_data, "INLINE_BYTES", 100)
    graph = Graph.from_proto(model)
    feed = {"x": RANDOM.normal(size=(1, 32)).astype(np.float32)}
    (got,) = Session(graph, threads=1).run(feed)
    whole = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_array_equal(got, whole.run(None, feed)[0])


def test_a_large_weight_out_of_a_constant_node_is_not_copied_at_each_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_data, "INLINE_BYTES", 100)
    model = build_network("y = MatMul(x, w)", {"x": (1, 32)})
    values = numpy_helper.from_array(RANDOM.normal(size=(32, 8)).astype(np.float32))
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=values))
    weight = Graph.from_proto(model).nodes[-1].inputs[1]
    assert get_constant(weight) is get_constant(weight) is not None


def test_the_reported_size_is_that_of_the_file(tmp_path: Path) -> None:
    result = ptq.quantize(MODEL, FEEDS)
    result.save(tmp_path / "out.onnx")
    assert result.report.int8_bytes == (tmp_path / "out.onnx").stat().st_size


def _missing(folder: Path) -> None:
    (folder / "w.bin").unlink()


def _truncated(folder: Path) -> None:
    os.truncate(folder / "w.bin", 5000)


def _linked(folder: Path) -> None:
    (folder / "w.bin").rename(folder.parent / "secret")
    (folder / "w.bin").symlink_to(folder.parent / "secret")


def _pipe(folder: Path) -> None:
    (folder / "w.bin").unlink()
    os.mkfifo(folder / "w.bin")


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("harm", [_missing, _truncated, _linked, _pipe])
def test_weights_that_are_not_there_or_not_the_models_are_refused_in_one_line(
    path: Path, harm
) -> None:
    harm(path.parent)
    with pytest.raises(ModelError) as caught:
        ptq.inspect(path)
    assert "\n" not in str(caught.value)
    assert "big.onnx" in str(caught.value)


@pytest.mark.parametrize("beside", ["nothing", "a node nobody reads", "an output", "a branch"])
def test_large_weights_that_the_model_hardly_needs_load(beside: str) -> None:
    model = build_network("y = MatMul(x, w)", {"x": (1, 256)}, w=_LARGE, idle=_LARGE)
    if beside == "a node nobody reads":
        model.graph.node.append(helper.make_node("Relu", ["idle"], ["dead"], name="dead"))
    elif beside == "an output":
        info = helper.make_tensor_value_info("idle", TensorProto.FLOAT, _LARGE.shape)
        model.graph.output.append(info)
    elif beside == "a branch":
        info = helper.make_tensor_value_info("z", TensorProto.FLOAT, _LARGE.shape)
        body = helper.make_graph([helper.make_node("Neg", ["idle"], ["z"])], "body", [], [info])
        truth = numpy_helper.from_array(np.array(True), "truth")
        model.graph.initializer.append(truth)
        model.graph.node.append(
            helper.make_node("If", ["truth"], ["z2"], then_branch=body, else_branch=body, name="if")
        )
        model.graph.output.append(
            helper.make_tensor_value_info("z2", TensorProto.FLOAT, _LARGE.shape)
        )
    some = random_feeds(model)
    whole = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for expected, got in zip(
        whole.run(None, some[0]), Session(Graph.from_proto(model)).run(some[0]), strict=True
    ):
        np.testing.assert_array_equal(expected, got)
    assert ptq.quantize(model, some).report.evaluation is not None


def test_weights_in_one_file_need_no_length(path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        kept = [entry for entry in tensor.external_data if entry.key != "length"]
        del tensor.external_data[:]
        tensor.external_data.extend(kept)
    bare = path.with_name("bare.onnx")
    bare.write_bytes(model.SerializeToString())
    assert Graph.load(bare).digest() == Graph.load(path).digest()


def test_a_message_without_weights_leaves_the_model_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_data, "INLINE_BYTES", 100)
    graph = Graph.from_proto(MODEL)
    before, inputs = graph.digest(), [value.name for value in graph.inputs]
    external_data.detach_weights(graph.model)
    external_data.as_buffers(graph.model)
    assert (graph.digest(), [value.name for value in graph.inputs]) == (before, inputs)
    assert graph.to_proto() == Graph.from_proto(MODEL).to_proto()
