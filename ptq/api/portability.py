"""The verb ``portability``: where another processor could compute other integers of a quantized model."""

from __future__ import annotations

from ptq.core.option_checks import refuse_unknown_options
from ptq.core.run_options import Progress, RunOptions
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.open import Model, open_model, require_quantized
from ptq.model.session.failure import explain_failure
from ptq.verification.portability import Portability, measure_portability


@refuse_unknown_options
@use_given_threads
def portability(
    model: Model,
    data: DataSource,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    threads: int = 0,
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
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        progress: Called with each stage and its steps.

    Raises:
        ModelError: The model cannot be read, or is a float model.
        DataError: A sample is missing, unreadable or does not fit.
        UsageError: An option makes no sense.
        Cancelled: The progress callback returned False or raised an exception.
    """
    run = RunOptions(threads=threads, progress=progress)
    reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
    graph = require_quantized(open_model(model))
    with explain_failure(graph):
        opened = reading.open(data, graph)
        return measure_portability(graph, run.track(opened, "checking portability"))
