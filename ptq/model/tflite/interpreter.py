"""A `.tflite` model in LiteRT's interpreter: the only module that runs one.

Feeds and results have the axes of the ONNX model from which ptq wrote the file; its metadata say in which order the
file stores them. A file of another tool has its own axes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, ModelError, UnsupportedError, shorten_message
from ptq.core.types import QType, QuantParams
from ptq.model.tflite.crashes import refuse_crashes
from ptq.model.tflite.schema import IDENTIFIER, load_schema, require_litert

Kernels = Literal["xnnpack", "reference"]
"""LiteRT's default kernels on processors, and its reference kernels (BUILTIN_REF)."""
_MISSING_OPERATOR = re.compile(r"Didn't find op for builtin opcode '(\w+)'")
ORDERS = "ptq.orders"
"""Metadata: the stored order of the axes of each input and output, by name."""
STANDARD = "TFLITE_METADATA"
"""TensorFlow Lite's own metadata, a flatbuffer of another schema."""


def get_litert_version() -> str:
    """Version of the installed package ``ai-edge-litert``."""
    require_litert()
    return version("ai-edge-litert")


def read_metadata(content: bytes) -> dict[str, str]:
    """Entries of a file's metadata that are text, by name.

    Raises:
        ModelError: The bytes are no `.tflite` file.
    """
    model = parse_model(content)
    found = {}
    for entry in model.metadata or ():
        if entry.name.decode() == STANDARD:
            continue
        data = model.buffers[entry.buffer].data
        raw = b"" if data is None else np.asarray(data, np.uint8).tobytes()
        try:
            found[entry.name.decode()] = raw.decode()
        except UnicodeDecodeError:
            continue
    return found


def parse_model(content: bytes) -> Any:
    """A file as the objects of its schema, each operator's code in ``builtinCode``.

    Converters before TensorFlow 2.4 wrote only ``deprecatedBuiltinCode``; later ones write both. The larger one is
    the code, as in LiteRT.

    Raises:
        ModelError: The bytes are no `.tflite` file.
    """
    if content[4:8] != IDENTIFIER:
        raise ModelError("the bytes are no .tflite file: they lack the mark TFL3")
    schema = load_schema()
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    except Exception as error:  # flatbuffers read damaged offsets without a check of their own
        raise ModelError(
            f"the .tflite file is damaged ({shorten_message(error)}); write it again"
        ) from None
    for code in model.operatorCodes or ():
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    return model


class LitertModel:
    """A `.tflite` model, ready to run.

    Attributes:
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        kernels: Which kernels compute.
    """

    def __init__(
        self,
        model: bytes | Path,
        *,
        kernels: Kernels = "xnnpack",
        threads: int = 1,
        keep_tensors: bool = False,
    ) -> None:
        """Load a model.

        Args:
            model: The bytes of a file, or its path.
            kernels: Which kernels compute.
            threads: Threads of one operator; 0 leaves the number to LiteRT.
            keep_tensors: Keep all tensors, for `read_tensors`; only with the reference kernels.

        Raises:
            UnsupportedError: ``ai-edge-litert`` is not installed, its kernels would end the process, or its reference
                kernels lack an operator.
            ModelError: LiteRT refuses the model.
        """
        require_litert()
        content = model if isinstance(model, bytes) else Path(model).read_bytes()
        parsed = parse_model(content)
        self.kernels = kernels
        self._keeps_tensors = keep_tensors and kernels == "reference"
        litert = import_module("ai_edge_litert.interpreter")
        resolver = litert.OpResolverType
        try:
            self._interpreter = litert.Interpreter(
                model_content=content,
                num_threads=threads or None,
                experimental_op_resolver_type=resolver.BUILTIN_REF if kernels == "reference" else resolver.AUTO,
                experimental_preserve_all_tensors=self._keeps_tensors,
            )  # fmt: skip
            refuse_crashes(parsed, load_schema(), reference=kernels == "reference")
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            missing = _MISSING_OPERATOR.search(str(error))
            if missing and kernels == "reference":
                raise UnsupportedError(
                    f"LiteRT's reference kernels have no {missing[1]}; its default kernels may have it "
                    "(arithmetic litert-xnnpack)"
                ) from error
            raise ModelError(f"LiteRT cannot load the model: {shorten_message(error)}") from error
        orders = json.loads(read_metadata(content).get(ORDERS, "{}"))
        self._orders = {name: tuple(order) for name, order in orders.items()}
        self._input_details = _get_details(parsed, self._interpreter, "inputs")
        self._output_details = _get_details(parsed, self._interpreter, "outputs")
        self.inputs = tuple(self._input_details)
        self.outputs = tuple(self._output_details)

    @property
    def halves(self) -> frozenset[str]:
        """Names of float16 inputs and outputs."""
        details = (*self._input_details.items(), *self._output_details.items())
        return frozenset(name for name, detail in details if detail["dtype"] == np.float16)

    @property
    def has_fixed_batch(self) -> bool:
        """Whether the file fixes the first axis of an input."""
        return any(
            -1 not in detail["shape_signature"][:1] for detail in self._input_details.values()
        )

    def run(self, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run one feed.

        A batch of another size than the file's runs at once if the file leaves the batch open, else row by row.

        Args:
            feed: Arrays by input name, in the axes of the ONNX model. Float arrays are quantized where an input of
                the file is quantized, as a QUANTIZE of these kernels does it.

        Returns:
            Arrays by output name, in the axes of the ONNX model. Quantized outputs are dequantized.

        Raises:
            DataError: The feed does not fit, or LiteRT fails on it.
        """
        missing = [name for name in self.inputs if name not in feed]
        if missing:
            raise DataError(f"the feed lacks input {missing[0]}")
        stored = {name: self._to_stored(name, np.asarray(feed[name])) for name in self.inputs}
        pieces = self._split(stored)
        found = [self._run_stored(piece) for piece in pieces]
        if len(found) == 1:
            return found[0]
        single = next((name for name in self.outputs if not found[0][name].ndim), None)
        if single is not None:
            raise DataError(f"output {single} has no axis of samples; run one sample at a time")
        return {name: np.concatenate([f[name] for f in found]) for name in self.outputs}

    def read_tensors(self) -> dict[str, NDArray[Any]]:
        """Tensors of the last run by name, as stored: all with ``keep_tensors``, else the outputs."""
        details = self._interpreter.get_output_details()
        found = {}
        for detail in self._interpreter.get_tensor_details() if self._keeps_tensors else details:
            try:
                found[detail["name"]] = self._interpreter.get_tensor(detail["index"])
            except ValueError:  # a tensor that no operator wrote
                continue
        return found

    def _split(self, stored: dict[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
        """The feed, or its rows where the file has a fixed batch of another size."""
        sizes = {
            (array.shape[0], int(self._input_details[name]["shape"][0]))
            for name, array in stored.items()
            if array.ndim and -1 not in self._input_details[name]["shape_signature"][:1]
        }
        for given, fixed in sizes:
            if given != fixed and fixed and given % fixed == 0 and len(sizes) == 1:
                return [
                    {name: array[at : at + fixed] for name, array in stored.items()}
                    for at in range(0, given, fixed)
                ]
        return [stored]

    def _run_stored(self, stored: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        interpreter = self._interpreter
        try:
            for name, array in stored.items():
                detail = self._input_details[name]
                if tuple(interpreter.get_input_details()[detail["at"]]["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape, strict=True)
            interpreter.allocate_tensors()
            for name, array in stored.items():
                interpreter.set_tensor(self._input_details[name]["index"], array)
            interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise DataError(f"LiteRT cannot run the sample: {shorten_message(error)}") from error
        return {
            name: self._from_stored(name, interpreter.get_tensor(detail["index"]))
            for name, detail in self._output_details.items()
        }

    def _to_stored(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        detail = self._input_details[name]
        params = _read_params(detail)
        if params is not None and array.dtype.kind == "f":
            as_reference = self.kernels == "reference"
            quantize = params.quantize_half_away if as_reference else params.quantize_by_inverse
            array = quantize(array.astype(np.float32, copy=False))
        order = self._orders.get(name)
        if order is not None and len(order) == array.ndim:
            array = array.transpose(order)
        dtype = np.dtype(detail["dtype"])
        return np.asarray(array.astype(dtype, copy=False), order="C")

    def _from_stored(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        params = _read_params(self._output_details[name])
        real: NDArray[Any] = array if params is None else np.asarray(params.dequantize(array))
        if real.dtype == np.float16:
            real = real.astype(np.float32)
        order = self._orders.get(name)
        if order is None or len(order) != real.ndim:
            return real
        return np.asarray(real.transpose(np.argsort(order)), order="C")


def list_signature_names(model: Any, side: str) -> Mapping[int, Sequence[str]]:
    """The names that the first signature gives each input or output, by tensor; two outputs may be one tensor."""
    names = defaultdict[int, list[str]](list)
    signatures = () if model.signatureDefs is None else model.signatureDefs[:1]
    for signature in signatures:
        for entry in getattr(signature, side) or ():
            names[entry.tensorIndex].append(entry.name.decode())
    return names


def _get_details(model: Any, interpreter: Any, side: str) -> dict[str, dict[str, Any]]:
    """Details of inputs or outputs by the names that the signature gives them, else by the tensor's own."""
    details = (
        interpreter.get_input_details() if side == "inputs" else interpreter.get_output_details()
    )
    names = list_signature_names(model, side)
    return {
        name: {**detail, "at": at}
        for at, detail in enumerate(details)
        for name in names.get(detail["index"], [detail["name"]])
    }


def _read_params(detail: Mapping[str, Any]) -> QuantParams | None:
    given, dtype = detail["quantization_parameters"], np.dtype(detail["dtype"])
    if len(given["scales"]) != 1 or dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    kind = QType(dtype.itemsize * 8, dtype.kind == "i", int(info.min), int(info.max))
    return QuantParams.per_tensor(float(given["scales"][0]), int(given["zero_points"][0]), kind)
