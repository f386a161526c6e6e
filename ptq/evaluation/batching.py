"""How many samples a model may run at once: only as many as its outputs can be shared out among."""

from __future__ import annotations

from ptq.core.errors import ModelError
from ptq.core.run_options import RunOptions
from ptq.data.splits import takes_any_batch
from ptq.model.graph import Graph
from ptq.model.node import shape_of
from ptq.rewrite.border.batch import with_fixed_batch

_PROBE = 10007
"""A batch that is the size of no other axis: shapes with it show which axes are the batch."""


def choose_batch(run: RunOptions, *graphs: Graph) -> int:
    """Samples that run at once: those of the options if all models keep samples apart, else 1.

    Args:
        run: How the job runs.
        graphs: The models that run the same batches.
    """
    return run.evaluation_batch if all(map(keeps_samples_apart, graphs)) else 1


def keeps_samples_apart(graph: Graph) -> bool:
    """Whether the first axis of every input and output is the batch for certain.

    The length of an output shows nothing. Eight images may hold eight boxes together, and the first axis of an output
    may be time. So declared or inferred shapes must say it.
    """
    if not takes_any_batch(graph):
        return False
    probed = with_fixed_batch(graph, _PROBE)
    if _has_probe(probed):
        return True
    try:
        return _has_probe(probed.with_shapes())
    except ModelError:  # the batch contradicts another shape
        return False


def _has_probe(graph: Graph) -> bool:
    shapes = [shape_of(value) for value in graph.outputs]
    return all(shape is not None and shape[:1] == (_PROBE,) for shape in shapes)
