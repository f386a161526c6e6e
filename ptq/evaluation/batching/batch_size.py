"""How many samples a model may run at once: only as many as its outputs can be shared out among."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.errors import ModelError
from ptq.core.run_options import RunOptions
from ptq.data.splits import has_free_batch
from ptq.evaluation.batching.mixed_samples import has_mixed_samples
from ptq.model.graph import Graph
from ptq.model.node import Node, Value, get_operator, get_shape, list_values_read
from ptq.model.size_values import find_size_values
from ptq.rewrite.border.batch import with_fixed_batch

_PROBE = 1009
"""A batch that is the size of no other axis: shapes with it show which axes are the batch. Inference takes longer
with a larger one."""
_LENGTH_INPUTS: Mapping[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "If": (0,),
    "NonMaxSuppression": (0, 1, 2, 3, 4),
    "NonZero": (0,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unique": (0,),
    "Upsample": (1,),
}
"""Positions of the inputs whose values decide how long the outputs are, by operator."""

Shape = tuple[int | None, ...] | None


def choose_batch(run: RunOptions, *graphs: Graph) -> int:
    """Samples that run at once: those of the options if all models keep samples apart, else 1.

    Args:
        run: How the job runs.
        graphs: The models that run the same batches.
    """
    return run.evaluation_batch if all(map(are_samples_apart, graphs)) else 1


def are_samples_apart(graph: Graph) -> bool:
    """Whether shapes show that the first axis of every input and output is the batch, and no node works along it.

    The length of an output shows nothing. Eight images may hold eight boxes together, and the first axis of an output
    may be time. So inferred shapes must say it. Exporters declare what the user tells them, as a batch of rows of
    boxes. A declared shape counts only where none is inferred, and where no node makes a length from values.
    """
    if not has_free_batch(graph):
        return False
    probed = with_fixed_batch(graph, _PROBE)
    sizes = find_size_values(probed)
    if any(get_operator(n) == "If" and _is_length_from_values(n, sizes) for n in probed.nodes):
        return False  # one sample decides for all
    declared = [get_shape(value) for value in probed.outputs]
    try:
        shaped = _infer_all_shapes(probed)
    except ModelError:  # the batch contradicts another shape
        return False
    if has_mixed_samples(shaped, _PROBE, lambda n: _infer_all_shapes(with_fixed_batch(graph, n))):
        return False
    inferred = [get_shape(value) for value in shaped.outputs]
    return all(
        _has_leading_batch(shape)
        or (
            (shape is None or shape[:1] == (None,))
            and _has_leading_batch(own)
            and _PROBE not in (shape or ())
            and not any(_is_length_from_values(node, sizes) for node in _list_makers(value))
        )
        for value, shape, own in zip(probed.outputs, inferred, declared, strict=True)
    )


def _infer_all_shapes(graph: Graph) -> Graph:
    """The graph with the shapes that follow from its inputs, whatever it declares."""
    for value in (v for node in graph.nodes for v in node.outputs):
        value.shape = None
    return graph.with_shapes()


def _has_leading_batch(shape: Shape) -> bool:
    return shape is not None and shape[:1] == (_PROBE,) and _PROBE not in shape[1:]


def _is_length_from_values(node: Node, sizes: set[Value]) -> bool:
    """Whether the length of an output follows from values of samples; ``sizes`` are the values that hold none."""
    if get_operator(node) == "Loop":
        return True
    positions = _LENGTH_INPUTS.get(get_operator(node), ())
    read = [v for k, v in enumerate(node.inputs) if k in positions and v is not None]
    return any(not v.is_initializer() and v not in sizes for v in read)


def _list_makers(output: Value) -> list[Node]:
    """All nodes from which an output follows."""
    found: dict[Node, None] = {}
    waiting = [output]
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in found:
            found[node] = None
            waiting += list_values_read(node)
    return list(found)
