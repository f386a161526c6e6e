"""Weights in other files than the model's; ONNX's and ONNX Runtime's own loaders are the oracles."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network, random_feeds

import ptq
from ptq.core.errors import ModelError
from ptq.model.graph import Graph
from ptq.model.open import count_file_bytes, list_model_files

MODEL = build_network(
    "y = MatMul(x, w)", {"x": (1, 8)}, w=np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
)
DIGEST = Graph.from_proto(MODEL).digest()


def save(path: Path, location: str = "w.bin", scale: float = 1) -> None:
    """Write the model, and its weight beside it as ``w.bin``; the model names ``location``."""
    path.parent.mkdir(parents=True)
    weight = onnx.numpy_helper.to_array(MODEL.graph.initializer[0]) * np.float32(scale)
    (path.parent / "w.bin").write_bytes(weight.tobytes())
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], location)
    model.graph.initializer[0].ClearField("raw_data")
    path.write_bytes(model.SerializeToString())


def link_cache(folder: Path) -> Path:
    """Links to the model and the weight in a folder of another one, as in the cache of Hugging Face."""
    save(folder / "blobs" / "a")
    view = folder / "snapshots" / "abc"
    view.mkdir(parents=True)
    (view / "model.onnx").symlink_to("../../blobs/a")
    (view / "w.bin").symlink_to("../../blobs/w.bin")
    return view / "model.onnx"


def link_inside(folder: Path) -> Path:
    save(folder / "m" / "m.onnx")
    (folder / "m" / "w.bin").rename(folder / "m" / "real.bin")
    (folder / "m" / "w.bin").symlink_to("real.bin")
    return folder / "m" / "m.onnx"


@pytest.mark.parametrize("link", [link_cache, link_inside])
def test_a_model_whose_files_are_links_loads_as_in_onnxruntime(tmp_path: Path, link) -> None:
    path = link(tmp_path)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert Graph.load(path).digest() == DIGEST
    assert [
        os.path.samefile(file, path.parent / "w.bin") for file in list_model_files(path)[1:]
    ] == [True]


def test_weights_beside_a_link_precede_those_beside_its_target(tmp_path: Path) -> None:
    save(tmp_path / "target" / "m.onnx", scale=2)
    link = tmp_path / "link.onnx"
    link.symlink_to("target/m.onnx")
    assert (
        Graph.load(link).digest() == Graph.load(tmp_path / "target" / "m.onnx").digest() != DIGEST
    )
    save(tmp_path / "own" / "m.onnx")
    (tmp_path / "own" / "w.bin").rename(tmp_path / "w.bin")
    assert Graph.load(link).digest() == DIGEST


def test_a_link_to_the_model_does_not_open_a_third_folder(tmp_path: Path) -> None:
    path = link_cache(tmp_path)
    (tmp_path / "third").mkdir()
    (tmp_path / "blobs" / "w.bin").rename(tmp_path / "third" / "w.bin")
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").symlink_to("../../third/w.bin")
    with pytest.raises(ModelError, match=r"w\.bin lies outside of the model's folder"):
        Graph.load(path)


def test_a_detour_in_a_location_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "m" / "m.onnx"
    save(path, "sub/../w.bin")  # there is no folder sub
    assert count_file_bytes(path) == path.stat().st_size + 256
    result = ptq.quantize(path, random_feeds(MODEL), effort="fast", force=True)
    assert result.report.float_bytes == count_file_bytes(path)


def test_a_missing_weight_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m" / "m.onnx"
    save(path, "none.bin")
    with pytest.raises(
        ModelError, match=r"its weight file none\.bin does not exist; put it beside"
    ):
        Graph.load(path)
