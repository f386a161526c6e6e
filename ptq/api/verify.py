"""The verb ``verify``: every integer of a quantized model, in its runtime against the integer executor."""

from __future__ import annotations

from dataclasses import replace

from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_choice, require_flag
from ptq.core.run_options import Progress, RunOptions
from ptq.data import DataSource, Preparation
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions
from ptq.data.workers.cluster_adapters import Cluster
from ptq.data.workers.start_workers import resolve_data, start_workers, stop_workers_at_end
from ptq.executor.arithmetics import ArithmeticName, get_kernels
from ptq.executor.runtimes.registry import OWN_RUNTIMES, RUNTIMES, RuntimeName, require_installed
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.open import Model, read_tflite_content
from ptq.model.session.failure import explain_failure
from ptq.rewrite.border.element_types import open_with_float_border
from ptq.verification.runtime_check import check_in_runtime
from ptq.verification.verify import Verification, verify_graph
from ptq.verification.verify_tflite import verify_tflite


@refuse_unknown_options
@stop_workers_at_end
@use_given_threads
def verify(
    model: Model,
    data: DataSource,
    *,
    arithmetic: ArithmeticName = "ort",
    optimize: bool = True,
    runtime: RuntimeName | None = None,
    against: Model | None = None,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    threads: int = 0,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare every integer tensor of a quantized model between its runtime and the integer executor.

    The runtime is ONNX Runtime; of a `.tflite` file it is LiteRT: its reference kernels, or with arithmetic
    ``litert-xnnpack`` its default ones.

    Args:
        model: A quantized model.
        data: Samples.
        arithmetic: Arithmetic of the integer executor.
        optimize: Run ONNX Runtime with graph optimizations. Without them it computes in float between quantizers,
            and differences are explained.
        runtime: Another runtime, such as ``openvino`` or ``qnn``, in which the model runs too. Each tensor is
            compared with what the file says; ``runtime_check`` of the result holds the comparison.
        against: With ``runtime``: a quantized model with the same tensors, which says what is expected; None for
            ``model`` itself.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread; None for all.
        skip_bad_samples: Leave out bad samples instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core, or with workers one.
        workers: Processes for samples, this one included; see `ptq.data.workers.worker_pool`. The result is the same.
        cluster: Workers elsewhere in place of processes, as for ``calibrate``. The result is the same.
        progress: Called with each stage and its steps.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        DataError: A sample is missing, unreadable or does not fit.
        UnsupportedError: The runtime is not installed.
        UsageError: An option makes no sense.
        Cancelled: The progress callback returned False or raised an exception.
    """
    get_kernels(arithmetic)
    optimize = require_flag("optimize", optimize)
    elsewhere = _require_other_runtime(runtime)
    if against is not None and elsewhere is None:
        raise UsageError("`against` says what another runtime should compute; give `runtime` too")
    run = start_workers(RunOptions(threads=threads, progress=progress), workers, cluster)
    content = read_tflite_content(model)
    graph = open_with_float_border(model)
    with explain_failure(graph):
        reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
        opened = reading.open(resolve_data(data, cluster), graph)
        tracked = run.track(opened, "verifying")
        verification = (
            verify_graph(graph, tracked, arithmetic=arithmetic, optimize=optimize, run=run)
            if content is None
            else verify_tflite(content, graph, tracked, arithmetic=arithmetic)
        )
        check = None
        if elsewhere:
            tracked = run.track(opened, "verifying in the runtime")
            expected = None if against is None else open_with_float_border(against)
            check = check_in_runtime(graph, tracked, elsewhere, against=expected, run=run)
    applied = reading.describe(opened, graph)
    verification = replace(verification, runtime_check=check)
    return replace(verification, skipped=tuple(opened.skipped), applied_preprocess=applied)


def _require_other_runtime(runtime: RuntimeName | None) -> str | None:
    """The runtime; it must be another one than those that every verification compares.

    Raises:
        UsageError: There is no such runtime, or every verification compares it.
        UnsupportedError: It is not installed.
    """
    if runtime is None:
        return None
    if isinstance(runtime, str) and runtime in OWN_RUNTIMES:
        raise UsageError(
            f"runtime {runtime} is compared anyway; leave it out, or name another one: {', '.join(RUNTIMES)}",
            "runtime",
        )
    require_choice("runtime", runtime, RUNTIMES)
    require_installed(runtime)
    return runtime
