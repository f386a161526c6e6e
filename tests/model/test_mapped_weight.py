"""Weights that stay in their file; the oracle is ONNX's own loader, which reads them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, random_feeds
from onnx import TensorProto

import ptq
from ptq.core.errors import ModelError
from ptq.model.proto.load import read
from ptq.model.proto.mapped_weight import MappedWeight, release_mapped_pages

RANDOM = np.random.default_rng(0)
MODEL = build_network(
    "a = Gemm(x, w, b)\nc = Relu(a)\ny = MatMul(c, v)",
    {"x": (1, 64)},
    w=RANDOM.normal(size=(64, 128)).astype(np.float32),
    b=RANDOM.normal(size=128).astype(np.float32),
    v=RANDOM.normal(size=(128, 160)).astype(np.float32),
)
MB = 2**20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in a file, its weights in another, all of them large enough to stay there."""
    monkeypatch.setattr("ptq.model.proto.external_data.INLINE_BYTES", 2000)
    monkeypatch.setattr("ptq.model.proto.mapped_weight._LEAST_BYTES", 2000)
    copy = onnx.ModelProto()
    copy.CopyFrom(MODEL)
    place = tmp_path / "big.onnx"
    onnx.save(copy, place, save_as_external_data=True, location="w.bin", size_threshold=0)
    return place


def read_weights(path: Path) -> dict[str, MappedWeight]:
    tensors = read(path)[1].tensors
    return {name: t for name, t in tensors.items() if isinstance(t, MappedWeight)}


def test_large_weights_of_another_file_are_those_that_onnx_reads(path):
    found = read_weights(path)
    assert sorted(found) == ["v", "w"]
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in MODEL.graph.initializer}
    for name, tensor in found.items():
        np.testing.assert_array_equal(tensor.numpy(), stored[name])
        release_mapped_pages()
        np.testing.assert_array_equal(tensor.numpy(), stored[name])


def test_the_quantized_model_is_that_of_weights_in_memory(path):
    feeds = random_feeds(MODEL)
    from_file = ptq.quantize(path, data=feeds)
    in_memory = ptq.quantize(MODEL, data=feeds)
    assert from_file.graph.digest() == in_memory.graph.digest()


def test_a_mapped_weight_is_pickled_with_its_values(path):
    weight = read_weights(path)["w"]
    copy = pickle.loads(pickle.dumps(weight))
    np.testing.assert_array_equal(copy.numpy(), weight.numpy())


@pytest.mark.parametrize("kept", [0, 1000])
def test_a_file_that_is_too_short_is_refused(path, kept):
    data = path.with_name("w.bin")
    data.write_bytes(data.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"need|damaged"):
        read(path)


def test_a_file_outside_of_the_folder_is_refused(path, tmp_path):
    outside = tmp_path.parent / "outside.bin"
    outside.write_bytes(path.with_name("w.bin").read_bytes())
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../outside.bin"
    onnx.save(model, path)
    with pytest.raises(ModelError, match="outside"):
        read(path)


def test_a_link_to_another_file_is_refused(path, tmp_path):
    data = path.with_name("w.bin")
    data.rename(tmp_path.parent / "elsewhere.bin")
    data.symlink_to(tmp_path.parent / "elsewhere.bin")
    with pytest.raises(ModelError, match="outside"):
        read(path)


def test_weights_of_less_than_a_byte_are_read(path):
    model = onnx.load(path)
    four_bits = onnx.helper.make_tensor("four", TensorProto.INT4, [100, 100], [1] * 10**4)
    model.graph.initializer.append(four_bits)
    onnx.save(model, path, save_as_external_data=True, location="w2.bin", size_threshold=0)
    assert sorted(read_weights(path)) == ["v", "w"]
    assert "four" in read(path)[1].initializer_names


@pytest.mark.parametrize(("shift", "mapped"), [(16, True), (3, False)])
def test_weights_at_an_odd_place_are_read(path, shift, mapped):
    data = path.with_name("w.bin")
    data.write_bytes(bytes(shift) + data.read_bytes())
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "offset":
                entry.value = str(int(entry.value) + shift)
    onnx.save(model, path)
    tensors = read(path)[1].tensors
    assert isinstance(tensors["w"], MappedWeight) == mapped
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in MODEL.graph.initializer}
    np.testing.assert_array_equal(tensors["w"].numpy(), stored["w"])


def test_a_file_system_without_mapping_is_read(path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr("ptq.model.proto.mapped_weight.mmap.mmap", refuse)
    tensors = read(path)[1].tensors
    assert not read_weights(path)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in MODEL.graph.initializer}
    np.testing.assert_array_equal(tensors["w"].numpy(), stored["w"])


PROGRAM = """
import sys
from pathlib import Path
from ptq.core.memory import measure_memory
from ptq.model.proto.load import read
from ptq.model.proto.mapped_weight import release_mapped_pages

weight = read(Path(sys.argv[1]))[1].tensors["w"]
before = measure_memory()
weight.numpy().sum()
after = measure_memory()
release_mapped_pages()
print(after - before, measure_memory() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's memory from /proc")
def test_released_pages_leave_the_memory_of_the_process(tmp_path):
    model = build_network("y = MatMul(x, w)", {"x": (1, 4096)}, w=np.ones((4096, 4096), np.float32))
    place = tmp_path / "big.onnx"
    onnx.save(model, place, save_as_external_data=True, location="w.bin", size_threshold=0)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, place], capture_output=True, text=True, check=True
    )
    read_bytes, released = map(int, done.stdout.split())
    assert read_bytes > 60 * MB
    assert released < 10 * MB
