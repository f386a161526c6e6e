"""Attention weights whose range holds for one length only.

The n results of a Softmax have the sum 1, so the greatest of them is 1/n or more. A range that ends below 1/n thus
cuts every Softmax over n positions, whatever the values are. If all samples have one length, and their weights are
nearly equal, the range ends near 1/length: at half the length the error is as large as the weights. Attention that
concentrates on few positions, as in most trained models, has weights near 1 at any length, and nothing is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.wording import plural
from ptq.data import Preprocess, Sample, Samples
from ptq.data.sample_source import name_sample
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.axes import get_softmax_axes
from ptq.model.graph import Graph
from ptq.model.node import Node, get_name, get_operator, get_shape
from ptq.model.session.exposed_session import CollectedTensors, open_session_with_outputs
from ptq.model.session.session import Session

_MAX_SAMPLES = 16
"""Samples whose lengths are compared: the float model runs on them once more."""
_MIN_SHARE = 0.5
"""Share of the length of the samples below which cut weights are tolerated: inputs so much shorter may not occur."""
_MAX_END = 0.5
"""A range that ends here or above holds for 2 positions or more. One position alone is not diagnosed."""


@dataclass(frozen=True)
class _NarrowRange:
    """The range of the weights of a Softmax over an open axis.

    Attributes:
        end: Where it ends.
        axis: The axis of the positions.
    """

    end: float
    axis: int


def check_softmax_lengths(
    graph: Graph, plan: Plan, samples: Samples | None, *, run: RunOptions
) -> Diagnosis | None:
    """Diagnose ranges of Softmaxes that inputs of another length certainly exceed; None if there are none.

    Args:
        graph: The prepared graph.
        plan: The plan.
        samples: The calibration samples; None if only their statistics are given.
        run: How the job runs.

    Raises:
        DataError: A sample is bad, or the model fails on it; the text names it.
    """
    narrow = _find_narrow_ranges(graph, plan)
    if samples is None or not narrow or isinstance(samples.preprocess, Preprocess):
        return None  # options for images fix their size
    session = open_session_with_outputs(graph, CollectedTensors(list(narrow)), threads=run.threads)
    lengths: dict[str, int] = {}
    for sample in samples.spread(_MAX_SAMPLES):
        for name, length in _measure_lengths(session, sample, narrow).items():
            if lengths.setdefault(name, length) != length:
                del narrow[name]
        if not narrow:
            return None
    found = [name for name in narrow if narrow[name].end * _MIN_SHARE * lengths[name] < 1]
    if not found:
        return None
    worst = min(found, key=lambda name: narrow[name].end)
    end = narrow[worst].end
    others = f" (so is that of {plural(len(found) - 1, 'other tensor')})" if found[1:] else ""
    seen = "all samples"
    if len(samples) > _MAX_SAMPLES:
        seen = f"{_MAX_SAMPLES} of {len(samples)} samples, spread over all,"
    return Diagnosis(
        f"{seen} have {lengths[worst]} positions, and its range ends at {end:.3g}: too low for fewer than "
        f"{math.ceil(1 / end)} positions{others}",
        f"{worst} (output of a Softmax)",
        "calibrate with samples of several lengths, the shortest too, or use the model at this length only",
    )


def _measure_lengths(
    session: Session, sample: Sample, narrow: Mapping[str, _NarrowRange]
) -> dict[str, int]:
    """The number of positions of each Softmax on a sample."""
    with name_sample(sample.name):
        arrays = session.run(sample.feed, list(narrow))
    pairs = zip(narrow.items(), arrays, strict=True)
    return {name: array.shape[found.axis] for (name, found), array in pairs}


def _find_narrow_ranges(graph: Graph, plan: Plan) -> dict[str, _NarrowRange]:
    """The range of each Softmax over an open axis, by its output, if shorter inputs may exceed it."""
    if not any(None in (get_shape(value) or ())[1:] for value in graph.inputs):
        return {}
    narrow = {}
    for node in filter(_is_softmax, graph.nodes):
        output, (axis, _) = node.outputs[0], get_softmax_axes(node)
        name, shape = get_name(output), get_shape(output)
        params = plan.tensors.get(name)
        if params is None or params.axis is not None or (shape is not None and shape[axis]):
            continue
        end = float(params.scale) * (params.qtype.hi - int(params.zero_point))
        if end < _MAX_END:
            narrow[name] = _NarrowRange(end, axis)
    return narrow


def _is_softmax(node: Node) -> bool:
    return get_operator(node) == "Softmax" and not get_softmax_axes(node)[1]
