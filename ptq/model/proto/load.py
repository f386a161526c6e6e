"""Loading of a model: from a file or message to ONNX's in-memory graph, checked and made uniform."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.checker
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx.external_data_helper import uses_external_data
from onnx_ir.passes import common as passes

from ptq.core.errors import ModelError, find_root_cause, shorten_message
from ptq.model.node import ONNX_DOMAINS
from ptq.model.proto import external_data
from ptq.model.proto.function_calls import note_calls
from ptq.model.proto.mapped_weight import map_weight
from ptq.model.proto.operator_versions import (
    NEWEST_IR_VERSION,
    NEWEST_OPSET,
    find_unsupported_nodes,
    lower_to_supported,
)
from ptq.model.proto.proto_walk import list_nodes, list_tensors
from ptq.model.proto.repair import repair
from ptq.model.proto.sparse_constants import to_dense
from ptq.model.proto.validate import require_data, validate
from ptq.model.proto.weight_files import load_weights


def read(path: Path) -> tuple[onnx.ModelProto, external_data.DetachedWeights]:
    """Read a model file, external data included.

    Returns:
        The model without its large weights, which are inputs there, and these weights.

    Raises:
        ModelError: The file or one of its weights is missing, or it is not an ONNX model.
    """
    _require_file(path)
    try:
        whole = onnx.load(path, load_external_data=False)
        order = tuple(tensor.name for tensor in whole.graph.initializer)
        proto, large = external_data.separate_weights(whole)
        del whole
        for tensor in filter(uses_external_data, list_tensors(proto)):
            load_weights(tensor, path, external_data.count_declared_bytes(tensor))
        weights = {name: _load_tensor(tensor, path) for name, tensor in large.items()}
    except DecodeError:
        raise ModelError(
            f"model {path} is not an ONNX file, is damaged, or nests graphs too deep to decode"
        ) from None
    except (OSError, ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"model {path} cannot be read: {shorten_message(error)}") from error
    return proto, external_data.DetachedWeights(weights, order)


def _require_file(path: Path) -> None:
    try:
        if path.is_file() and path.stat().st_size:
            return
        what = "is a folder" if path.is_dir() else "is not a regular file"
        what = "is empty" if path.is_file() else what if path.exists() else "does not exist"
    except (OSError, ValueError) as error:  # a name too long, a null byte, a loop of links
        what = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise ModelError(f"model {path} {what}; give the path of an .onnx file")


def _load_tensor(tensor: onnx.TensorProto, model: Path) -> ir.TensorProtocol:
    """Load one tensor, which may be in another file."""
    if uses_external_data(tensor):
        if (mapped := map_weight(tensor, model)) is not None:
            return mapped
        stored, tensor = tensor, onnx.TensorProto()
        tensor.CopyFrom(stored)
        load_weights(tensor, model, external_data.count_declared_bytes(tensor))
    require_data(tensor, str(model))
    return external_data.to_ir_tensor(tensor)


def read_proto(
    proto: onnx.ModelProto, source: str
) -> tuple[onnx.ModelProto, external_data.DetachedWeights]:
    """Split a model in memory into the two results of `read`.

    Raises:
        ModelError: A tensor is damaged, or its data are in another file.
    """
    order = tuple(tensor.name for tensor in proto.graph.initializer)
    proto, large = external_data.separate_weights(proto)
    for tensor in large.values():
        require_data(tensor, source)
    weights = {name: external_data.to_ir_tensor(tensor) for name, tensor in large.items()}
    return proto, external_data.DetachedWeights(weights, order)


def to_ir(proto: onnx.ModelProto, source: str, detached: external_data.DetachedWeights) -> ir.Model:
    """The model as onnx_ir: functions inlined, constants as initializers, a unique name for every node.

    Args:
        proto: The model.
        source: Name of the model in errors.
        detached: The inputs that stand for large weights.

    Raises:
        ModelError: It is not a valid ONNX model.
    """
    if not proto.opset_import or not proto.HasField("graph"):
        raise ModelError(f"{source} has no graph or no opset; it is not an ONNX model")
    if proto.training_info:
        raise ModelError(f"{source} carries training information; export it for inference")
    validate(proto, source)
    if proto.ir_version < 4:
        # Before IR version 4 every initializer also had to be an input, with the initializer as its default.
        older, proto = proto, onnx.ModelProto()
        proto.CopyFrom(older)
        proto.ir_version = 4
    proto = repair(proto)
    check_valid(proto, source)
    proto = to_dense(proto, source)
    try:
        model = ir.from_proto(lower_to_supported(proto))
        model.ir_version = min(model.ir_version, NEWEST_IR_VERSION)
        if not {*ONNX_DOMAINS} & set(model.opset_imports):
            # all operators are of other domains, so any version fits
            model.opset_imports[""] = NEWEST_OPSET
        note_calls(model)
        passes.InlinePass()(model)
        passes.RemoveInitializersFromInputsPass()(model)
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        passes.TopologicalSortPass()(model)
        external_data.restore_weights(model, detached)
        external_data.materialize_weights(model)
    except (onnx.checker.ValidationError, ValueError, TypeError, RuntimeError) as error:
        reason = shorten_message(find_root_cause(error))
        raise ModelError(f"{source} is not a valid ONNX model: {reason}") from error
    _name_nodes(model)
    return model


def to_ir_with_types(proto: onnx.ModelProto, detached: external_data.DetachedWeights) -> ir.Model:
    """The model as onnx_ir, of the message of a loaded model to which types and shapes were added.

    Raises:
        ModelError: With the types, operators were replaced by others, and these are not valid.
    """
    if find_unsupported_nodes(proto):
        return to_ir(proto, "the model", detached)
    return external_data.merge_weights(proto, detached)


def check_valid(proto: onnx.ModelProto, source: str) -> None:
    """Check a model with ONNX's own checker.

    Raises:
        ModelError: It is not a valid ONNX model.
    """
    if not all(output.type.tensor_type.HasField("shape") for output in proto.graph.output):
        proto = _with_output_shapes(proto)
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        reason = shorten_message(_with_node_names(proto, error))
        raise ModelError(f"{source} is not a valid ONNX model: {reason}") from error


def _with_node_names(
    proto: onnx.ModelProto, error: onnx.checker.ValidationError
) -> onnx.checker.ValidationError:
    """The checker's error for a copy in which every node has a name, so that the text can name it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in list_nodes(copy):
        node.name = node.name or f"{node.op_type}_{next(iter(node.output), 'node')}"
    try:
        onnx.checker.check_model(copy)
    except onnx.checker.ValidationError as named:
        return named
    return error


def _with_output_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every output has a shape. Only the checker requires one."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for output in copy.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.shape.SetInParent()
    return copy


def _name_nodes(model: ir.Model) -> None:
    """Give every node a unique name. Names that are already unique stay."""
    used: set[str] = set()
    for node in model.graph.all_nodes():
        first = next((v.name for v in node.outputs if v.name), "node")
        base = node.name or f"{node.op_type}_{first}"
        name, number = base, 1
        while name in used:
            name, number = f"{base}_{number}", number + 1
        node.name = name
        used.add(name)
