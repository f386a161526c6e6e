"""Result of ``ptq.convert``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx

from ptq.model.graph import Graph
from ptq.model.save import save_apart, write_apart


@dataclass(frozen=True, eq=False)
class Converted:
    """A quantized model in another form. It can be pickled and copied.

    Attributes:
        graph: The converted graph.
        form: ``qdq``, ``qoperator`` or ``tflite``.
        source: File of the model before; None if it was in memory.
        tflite: The `.tflite` file, in form ``tflite``.
        load_failure: Why ONNX Runtime cannot load the model; empty if it can, and in form ``tflite``.
        given_model_loads: False if ONNX Runtime loads neither this model nor the one before.
    """

    graph: Graph
    form: str
    source: Path | None = None
    tflite: bytes | None = None
    load_failure: str = ""
    given_model_loads: bool = True

    def __repr__(self) -> str:
        return f"Converted(form={self.form!r}, nodes={len(self.graph.nodes)})"

    @property
    def model(self) -> onnx.ModelProto:
        """The converted model as an ONNX protobuf message."""
        return self.graph.to_proto()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model atomically.

        Raises:
            UsageError: ``path`` is a file of the model before, or of its weights.
            PtqError: A file cannot be written.
        """
        if self.tflite is not None:
            write_apart(self.tflite, Path(path), self.source)
            return
        save_apart(self.graph, Path(path), self.source)
