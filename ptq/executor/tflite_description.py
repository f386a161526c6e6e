"""What TensorFlow Lite's metadata say about a model, from the metadata of the ONNX model."""

from __future__ import annotations

from ptq.core.errors import DataError
from ptq.data.preprocessing.exporter_metadata import read_literal, read_names
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.recorded_preprocess import read_preprocess
from ptq.model.graph import Graph
from ptq.rewrite.tflite.standard_metadata import ImageInput, ModelDescription


def describe_model(graph: Graph) -> ModelDescription:
    """Name, normalization of images and class names, as far as the model's metadata hold them."""
    return ModelDescription(
        name=graph.model.graph.name or "",
        image=_read_image_input(graph),
        labels=read_names(graph.metadata) or _read_class_list(graph),
    )


def _read_class_list(graph: Graph) -> tuple[str, ...]:
    """The entry ``classes``: a JSON list of names, as in the model of sample_data; empty without."""
    names = read_literal(graph.metadata.get("classes", ""))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def _read_image_input(graph: Graph) -> ImageInput | None:
    """The recorded preprocessing in pixels: (x · scale − mean) / std is (x − mean / scale) / (std / scale)."""
    recorded = read_preprocess(graph)
    try:
        options = None if recorded is None else recorded.to_options()
    except DataError:  # named where samples are prepared; a file without normalization is right too
        return None
    if not isinstance(options, Preprocess) or options.scale is None:
        return None
    scale, mean, std = options.scale, options.mean or (0.0,), options.std or (1.0,)
    count = max(len(mean), len(std))  # readers of the metadata want as many of both
    return ImageInput(
        mean=tuple(value / scale for value in mean * (count // len(mean))),
        std=tuple(value / scale for value in std * (count // len(std))),
        channels=options.channels,
    )
