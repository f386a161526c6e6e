"""The verb ``convert``: a quantized model in another form, with the same integer function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

from ptq.core.errors import ModelError, UsageError
from ptq.core.option_checks import (
    MAX_BATCH,
    refuse_unknown_options,
    require_choice,
    require_count,
    require_flag,
)
from ptq.executor.tflite_export import encode_tflite
from ptq.model.converted import Converted
from ptq.model.graph import Graph
from ptq.model.metadata import PROVENANCE, read_record, write_record
from ptq.model.open import (
    Model,
    get_source_path,
    open_model,
    read_tflite_content,
    require_quantized,
)
from ptq.model.session.failure import explain_failure
from ptq.model.session.session import Session
from ptq.rewrite.border.element_types import has_integer_border, open_with_float_border
from ptq.rewrite.tflite.write import DEFAULT_TFLITE, InputOutputType, TfliteOptions
from ptq.solver.recipe import QuantizedForm
from ptq.verification.conversion import convert_graph


@refuse_unknown_options
def convert(
    model: Model,
    form: QuantizedForm,
    *,
    integers: bool = False,
    io: InputOutputType = "float",
    static_batch: int | None = None,
) -> Converted:
    """Convert a quantized model to another form, with the same integer function.

    Its metadata stay; a provenance names the new form too, as ``converted_to``. The result says why if ONNX Runtime
    cannot load it.

    Args:
        model: A quantized model.
        form: ``qdq``, ``qoperator``, or ``tflite``: LiteRT's file, for models with int8 activations.
        integers: In QOperator form, convert also operators that ONNX Runtime computes in float in QDQ form.
        io: Element type of inputs and outputs of a `.tflite` file: ``float``, ``int8`` or ``float16``. With ``float``
            those of a model that ptq quantized with integers keep these.
        static_batch: The batch of a `.tflite` file; None leaves it open where every operator allows that.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UnsupportedError: An operator cannot be converted.
        UsageError: An option is of another form.
    """
    require_choice("form", form, get_args(QuantizedForm))
    integers = require_flag("integers", integers)
    require_choice("io", io, get_args(InputOutputType))
    if static_batch is not None:
        static_batch = require_count("static_batch", static_batch, least=1, most=MAX_BATCH)
    options = TfliteOptions(io, static_batch)
    if form != "tflite" and options != DEFAULT_TFLITE:
        raise UsageError("`io` and `static_batch` are of .tflite files; choose `form` tflite")
    if integers and form != "qoperator":
        raise UsageError(f"the option integers is of form qoperator, not {form}; leave it out")
    graph = require_quantized(open_model(model))
    if form == "tflite":
        if has_integer_border(graph):  # else input and quantized input would have one name
            options = replace(options, io="int8" if io == "float" else io)
            graph = open_with_float_border(graph)
        return _convert_to_tflite(graph, options, get_source_path(model))
    with explain_failure(graph):
        converted = convert_graph(graph, form, integers=integers)
    provenance = read_record(converted, PROVENANCE)
    if provenance is not None:
        write_record(converted, PROVENANCE, {**provenance, "converted_to": form})
    failure = _find_load_failure(converted)
    # ONNX Runtime never loads a .tflite file itself
    loads = not failure or read_tflite_content(model) is not None or not _find_load_failure(graph)
    return Converted(
        converted, form, get_source_path(model), load_failure=failure, given_model_loads=loads
    )


def _find_load_failure(graph: Graph) -> str:
    """Why ONNX Runtime cannot load a model; empty if it can."""
    try:
        Session.for_check(graph)
    except ModelError as error:
        return str(error)
    return ""


def _convert_to_tflite(graph: Graph, options: TfliteOptions, source: Path | None) -> Converted:
    named = graph.copy()
    provenance = read_record(named, PROVENANCE)
    if provenance is not None:
        write_record(named, PROVENANCE, {**provenance, "converted_to": "tflite"})
    with explain_failure(graph):
        return Converted(named, "tflite", source, encode_tflite(named, options).content)
