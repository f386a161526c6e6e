"""The verb ``portability``: where another processor could compute other integers of a quantized model."""

from __future__ import annotations

from ptq.core.option_checks import (
    refuse_unknown_options,
)
from ptq.core.run_options import Progress, RunOptions
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.model.open import Model, open_model
from ptq.model.session.failure import explain_failure
from ptq.verification.portability import Portability, measure_portability


@refuse_unknown_options
def portability(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    progress: Progress | None = None,
) -> Portability:
    """Measure where another processor could compute other integers of a quantized model.

    Args:
        model: A quantized model.
        data: Samples.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread; None for all.
        skip_bad_samples: Leave out bad samples instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        progress: Called with each stage and its steps.

    Raises:
        ModelError: The model cannot be read.
        DataError: A sample is missing, unreadable or does not fit.
    """
    graph = open_model(model)
    with explain_failure(graph):
        opened = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache).open(data, graph)
        run = RunOptions(progress=progress)
        return measure_portability(graph, run.track(opened, "checking portability"))
