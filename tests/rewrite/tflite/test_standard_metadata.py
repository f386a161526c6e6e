"""TensorFlow Lite's own metadata: the entry ``TFLITE_METADATA`` and the class names behind the model.

The oracle reads the flatbuffer by the field numbers of metadata_schema.fbs; tflite-support's reader, where installed,
reads the same file too.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest
from qdq_builder import QdqBuilder

from ptq.executor.tflite_export import encode_tflite
from ptq.model.graph import Graph

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

import flatbuffers
from flatbuffers.number_types import Float32Flags, Int8Flags
from flatbuffers.table import Table

from ptq.model.tflite.interpreter import LitertModel, parse_model, read_metadata

NAMES = ("shirt", "trouser\nleg", "coat")
RECORD = {"source": "images", "size": [4, 4], "channels": "RGB", "layout": "NCHW", "interpolation": "bilinear",
          "scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.25, 0.5, 1.0]}  # fmt: skip


def classifier(outputs: int = 3, **metadata: str) -> Graph:
    b = QdqBuilder()
    w = b.weight(outputs, 3, 4, 4)
    y = b.node("Conv", b.input(["N", 3, 4, 4], name="image"), w, b.bias(0.05, w, outputs))
    y = b.requantize(y, 0.4)
    b.output(b.requantize(b.node("Flatten", y), 0.4))
    graph = b.to_graph()
    graph.metadata.update(metadata)
    return graph


class Fields:
    """A table of the flatbuffer, its fields by number."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def _at(self, field: int) -> int:
        return int(self._table.Offset(4 + 2 * field))

    def text(self, field: int) -> str:
        at = self._at(field)
        return self._table.String(at + self._table.Pos).decode() if at else ""

    def number(self, field: int) -> int:
        return int(self._table.GetSlot(4 + 2 * field, 0, Int8Flags))

    def table(self, field: int) -> Fields:
        return Fields(
            Table(self._table.Bytes, self._table.Indirect(self._at(field) + self._table.Pos))
        )

    def tables(self, field: int) -> list[Fields]:
        at = self._at(field)
        if not at:
            return []
        start = self._table.Vector(at)
        return [
            Fields(Table(self._table.Bytes, self._table.Indirect(start + 4 * i)))
            for i in range(self._table.VectorLen(at))
        ]

    def numbers(self, field: int) -> list[float]:
        found = self._table.GetVectorAsNumpy(Float32Flags, self._at(field))
        return [float(value) for value in found]


def read_standard(content: bytes) -> Fields:
    model = parse_model(content)
    [entry] = [e for e in model.metadata if e.name == b"TFLITE_METADATA"]
    buffer = bytearray(np.asarray(model.buffers[entry.buffer].data, np.uint8).tobytes())
    assert flatbuffers.util.GetBufferIdentifier(buffer, 0) == b"M001"
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, buffer, 0)
    return Fields(Table(buffer, root))


def labels_of(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        [entry] = archive.infolist()
        assert (entry.filename, entry.compress_type) == ("labels.txt", zipfile.ZIP_STORED)
        return archive.read(entry).decode().splitlines()


def test_the_normalization_is_in_pixels():
    content = encode_tflite(classifier(**{"ptq.preprocess": json.dumps(RECORD)})).content
    model = read_standard(content)
    [subgraph] = model.tables(3)
    [image] = subgraph.tables(2)
    [unit] = image.tables(4)
    assert (model.text(7), image.text(0), unit.number(0)) == ("1.0.0", "image", 1)
    assert unit.table(1).numbers(0) == pytest.approx([123.675, 116.28, 103.53])
    assert unit.table(1).numbers(1) == pytest.approx([63.75, 127.5, 255.0])
    assert image.table(3).number(0) == 2  # ImageProperties
    assert image.table(3).table(1).number(0) == 1  # RGB


def test_mean_and_std_have_as_many_values():
    record = {**RECORD, "std": [0.5]}
    content = encode_tflite(classifier(**{"ptq.preprocess": json.dumps(record)})).content
    [unit] = read_standard(content).tables(3)[0].tables(2)[0].tables(4)
    assert unit.table(1).numbers(0) == pytest.approx([123.675, 116.28, 103.53])
    assert unit.table(1).numbers(1) == pytest.approx([127.5] * 3)


@pytest.mark.parametrize(
    "record", ["{", '{"source": "feeds"}', '{"source": "images", "mean": "x"}']
)
def test_without_a_preprocessing_of_images_nothing_is_said_of_it(record):
    content = encode_tflite(classifier(**{"ptq.preprocess": record})).content
    [image] = read_standard(content).tables(3)[0].tables(2)
    assert image.text(0) == "image"
    assert image.tables(4) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"names": str(dict(enumerate(NAMES)))},
        {"classes": json.dumps(NAMES)},
    ],
    ids=["names", "classes"],
)
def test_the_class_names_are_a_file_of_the_output(metadata):
    content = encode_tflite(classifier(**metadata)).content
    [output] = read_standard(content).tables(3)[0].tables(3)
    [file] = output.tables(6)
    assert (file.text(0), file.number(2)) == ("labels.txt", 2)  # TENSOR_AXIS_LABELS
    assert labels_of(content) == ["shirt", "trouser leg", "coat"]


def test_names_of_which_no_output_has_as_many_are_files_of_the_model():
    content = encode_tflite(classifier(5, classes=json.dumps(NAMES))).content
    model = read_standard(content)
    [output] = model.tables(3)[0].tables(3)
    assert output.tables(6) == []
    assert [file.text(0) for file in model.tables(6)] == ["labels.txt"]


def test_the_rest_of_the_file_stays_as_it_is():
    plain = encode_tflite(classifier()).content
    named = encode_tflite(classifier(classes=json.dumps(NAMES))).content
    assert encode_tflite(classifier(classes=json.dumps(NAMES))).content == named
    assert "TFLITE_METADATA" not in read_metadata(named)
    assert read_metadata(named).keys() == {"classes", "ptq.orders"}
    feed: dict[str, Any] = {
        "image": np.random.default_rng(1).normal(0, 1, (2, 3, 4, 4)).astype(np.float32)
    }
    for ours, theirs in zip(
        LitertModel(plain).run(feed).values(), LitertModel(named).run(feed).values(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_the_reader_of_tflite_support_reads_the_same(tmp_path):
    reader = pytest.importorskip(
        "tensorflow_lite_support.metadata.python.metadata", reason="tflite-support is not installed"
    )
    path = tmp_path / "m.tflite"
    path.write_bytes(
        encode_tflite(
            classifier(classes=json.dumps(NAMES), **{"ptq.preprocess": json.dumps(RECORD)})
        ).content
    )
    shown = reader.MetadataDisplayer.with_model_file(str(path))
    [subgraph] = json.loads(shown.get_metadata_json())["subgraph_metadata"]
    [unit] = subgraph["input_tensor_metadata"][0]["process_units"]
    assert unit["options"]["std"] == pytest.approx([63.75, 127.5, 255.0])
    [file] = subgraph["output_tensor_metadata"][0]["associated_files"]
    assert file == {"name": "labels.txt", "type": "TENSOR_AXIS_LABELS"}
    assert shown.get_associated_file_buffer("labels.txt").decode().splitlines() == labels_of(
        path.read_bytes()
    )
