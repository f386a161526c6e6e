"""TensorFlow Lite's own metadata: what an app reads to prepare inputs and to name classes.

The entry ``TFLITE_METADATA`` is a flatbuffer by the schema of `tflite-support
<https://github.com/tensorflow/tflite-support/blob/master/tensorflow_lite_support/metadata/metadata_schema.fbs>`_. The
names of the classes are a file of their own, ``labels.txt``, in a ZIP archive behind the model
(`Adding metadata to TensorFlow Lite models <https://ai.google.dev/edge/litert/conversion/tensorflow/metadata>`_).
No small package holds classes of this schema, so the few tables are written here.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

LABELS = "labels.txt"
"""Name of the file of class names."""
_IDENTIFIER = b"M001"
_PARSER_VERSION = "1.0.0"
"""The oldest version of the schema that has all fields written here."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of files in a ZIP archive that tell none."""
_PLAIN_FILE = 0o644 << 16
_AXIS_LABELS = 2
"""AssociatedFileType.TENSOR_AXIS_LABELS: a line for each element of the last axis."""
_IMAGE = 2
"""ContentProperties.ImageProperties."""
_NORMALIZATION = 1
"""ProcessUnitOptions.NormalizationOptions."""
_COLOR_SPACES = {"RGB": 1, "GRAY": 2}
"""ColorSpaceType; the schema has none for BGR."""


@dataclass(frozen=True)
class ImageInput:
    """How the pixels of an image become the input: (pixel − mean) / std, pixels in 0 … 255.

    Attributes:
        mean: One value, or one for each channel.
        std: The same.
        channels: Order of the colors.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: Literal["RGB", "BGR", "GRAY"] | None


@dataclass(frozen=True)
class ModelDescription:
    """What the metadata say about a model.

    Attributes:
        name: Its name; may be empty.
        image: How images become its only input; None if it reads none, or if that is unknown.
        labels: Names of its classes, in the order of the output; empty if they are unknown.
    """

    name: str = ""
    image: ImageInput | None = None
    labels: tuple[str, ...] = ()


NOTHING_KNOWN = ModelDescription()


def encode_description(
    description: ModelDescription, inputs: Sequence[str], outputs: Mapping[str, Sequence[int]]
) -> bytes:
    """The content of the entry.

    Args:
        description: What is known about the model.
        inputs: Names of its inputs, in their order.
        outputs: Shape of each output by name, in their order. An output of shape (batch, classes) gets the labels.
    """
    tables = _Tables()
    image = description.image if len(inputs) == 1 else None
    labelled = [
        bool(description.labels) and len(shape) == 2 and shape[1] == len(description.labels)
        for shape in outputs.values()
    ]
    labels_elsewhere = bool(description.labels) and not any(labelled)
    subgraph = {
        2: tables.vector([tables.tensor(name, image) for name in inputs]),
        3: tables.vector(
            [
                tables.tensor(name, has_labels=has_labels)
                for name, has_labels in zip(outputs, labelled, strict=True)
            ]
        ),
    }
    model = {
        0: tables.text(description.name) if description.name else None,
        3: tables.vector([tables.table(subgraph)]),
        6: tables.vector([tables.label_file(0)]) if labels_elsewhere else None,
        7: tables.text(_PARSER_VERSION),
    }
    return tables.finish(tables.table(model))


def pack_labels(model: bytes, labels: Sequence[str]) -> bytes:
    """The file of a model with its labels behind it; the model itself without labels."""
    if not labels:
        return model
    stream = io.BytesIO(model)
    entry = zipfile.ZipInfo(LABELS, _FIRST_DATE)
    entry.external_attr = _PLAIN_FILE
    entry.create_system = 3  # the same bytes on each system
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr(entry, "".join(f"{' '.join(label.split())}\n" for label in labels))
    return stream.getvalue()


class _Tables:
    """Tables of the schema in a flatbuffer; each method returns the offset of what it wrote.

    Fields have the numbers of the schema. A union takes two: its kind, then its table.
    """

    def __init__(self) -> None:
        import flatbuffers

        self._builder = flatbuffers.Builder(1024)

    def text(self, text: str) -> int:
        return int(self._builder.CreateString(text))

    def numbers(self, values: Sequence[float]) -> int:
        self._builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self._builder.PrependFloat32(value)
        return int(self._builder.EndVector())

    def vector(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())

    def table(
        self, tables: Mapping[int, int | None], kinds: Mapping[int, int] | None = None
    ) -> int:
        """A table of offsets and of numbers of one byte, both by field; None leaves a field out."""
        kinds = kinds or {}
        self._builder.StartObject(max([*tables, *kinds]) + 1)
        for field, offset in tables.items():
            if offset is not None:
                self._builder.PrependUOffsetTRelativeSlot(field, offset, 0)
        for field, number in kinds.items():
            self._builder.PrependInt8Slot(field, number, 0)
        return int(self._builder.EndObject())

    def label_file(self, kind: int) -> int:
        return self.table({0: self.text(LABELS)}, {2: kind})

    def tensor(
        self, name: str, image: ImageInput | None = None, *, has_labels: bool = False
    ) -> int:
        """An input or output, with its images and their normalization, or its labels."""
        fields: dict[int, Any] = {0: self.text(name)}
        if image is not None:
            color_space = _COLOR_SPACES.get(image.channels or "", 0)
            fields[3] = self.table({1: self.table({}, {0: color_space})}, {0: _IMAGE})
            numbers = self.table({0: self.numbers(image.mean), 1: self.numbers(image.std)})
            fields[4] = self.vector([self.table({1: numbers}, {0: _NORMALIZATION})])
        if has_labels:
            fields[6] = self.vector([self.label_file(_AXIS_LABELS)])
        return self.table(fields)

    def finish(self, root: int) -> bytes:
        self._builder.Finish(root, _IDENTIFIER)
        return bytes(self._builder.Output())
