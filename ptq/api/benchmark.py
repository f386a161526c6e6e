"""The verb ``benchmark``: several models timed in turns, in one process and on the same inputs.

result = ptq.benchmark(["model.onnx", "model.int8.onnx"])
print(result.models[1].speed, result.models[1].speed_interval)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import cast, get_args

import numpy as np

from ptq.api.peak_memory import measure_peak_memory
from ptq.core.errors import ModelError, UnsupportedError, UsageError
from ptq.core.option_checks import (
    refuse_unknown_options,
    require_choice,
    require_flag,
    require_number,
)
from ptq.core.run_options import Progress, RunOptions
from ptq.data import DataSource, Preparation, Sample
from ptq.data.made_inputs import make_feed
from ptq.data.sample_source import name_sample
from ptq.data.sample_store import CacheOption
from ptq.data.splits import SampleOptions, list_input_specs
from ptq.evaluation.intervals import Interval, compute_median_interval
from ptq.evaluation.speed import summarize_ratios, time_in_turns
from ptq.executor.runtimes.litert_model import InterpretedModel
from ptq.executor.runtimes.registry import RuntimeName, open_in_runtime
from ptq.executor.runtimes.runtime import Placement, RuntimeModel, describe_fallback
from ptq.kernels.thread_pool import use_given_threads
from ptq.model.graph import Graph
from ptq.model.node import get_axis_names, get_dtype, get_name
from ptq.model.open import (
    Model,
    count_file_bytes,
    display_name,
    get_source_path,
    is_quantized,
    open_model,
    read_tflite_content,
)
from ptq.model.proto.serialize import count_serialized_bytes
from ptq.model.session.failure import explain_failure
from ptq.model.session.session import Session
from ptq.model.tflite.schema import SUFFIX
from ptq.rewrite.border.batch import require_own_batch
from ptq.rewrite.border.element_types import open_with_float_border, to_border_feed
from ptq.verification.slow_integers import find_slow_patterns

DEFAULT_SECONDS = 3.0
MAX_ROUNDS = 1000
MAX_FEEDS = 16
"""Samples that are held in memory; rounds go through them again and again."""

TRANSLATED = (
    "timed is a translation of the file into ONNX, not the file itself; runtime litert times that"
)


@dataclass(frozen=True)
class TimedModel:
    """What one model takes.

    Attributes:
        model: Path or name.
        bytes: Size of its files.
        load_ms: Milliseconds to load it into the runtime: the least of two loads.
        run_ms: Milliseconds of one run: the median.
        run_interval: 95 % interval of this median.
        speed: Time of the first model over time of this one: the median over rounds; None for the first.
        speed_interval: 95 % interval of this median; 0 and infinity if there were too few rounds for one.
        peak_bytes: Peak memory of a process that loads and runs this model, libraries included; None if not measured.
        slow: Reasons why its integers may be slow; of a model in another runtime, the nodes that fall back to the
            CPU; of a `.tflite` file outside LiteRT, that its time is that of a translation.
    """

    model: str
    bytes: int
    load_ms: float
    run_ms: float
    run_interval: Interval
    speed: float | None
    speed_interval: Interval | None
    peak_bytes: int | None
    slow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """Models timed in turns.

    Attributes:
        models: The models in the order given; speeds are relative to the first.
        rounds: Number of rounds; each runs every model once, on the same sample.
        samples: Number of samples; 0 if inputs were made from shapes.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        shapes: Shape of each input.
        runtime: What ran the models.
    """

    models: tuple[TimedModel, ...]
    rounds: int
    samples: int
    threads: int
    shapes: dict[str, tuple[int, ...]]
    runtime: str = "ort"


@refuse_unknown_options
@use_given_threads
def benchmark(
    models: Model | Sequence[Model],
    data: DataSource | None = None,
    *,
    preprocess: Preparation | None = None,
    samples: int | None = None,
    skip_bad_samples: bool = False,
    cache: CacheOption | None = None,
    seconds: float = DEFAULT_SECONDS,
    memory: bool = True,
    threads: int = 0,
    runtime: RuntimeName | None = None,
    progress: Progress | None = None,
) -> Benchmark:
    """Time models in turns, so that other work of the processor slows all of them.

    Args:
        models: The models; speeds are relative to the first, which usually is the float model.
        data: Samples (see ``ptq.data.open_samples``); without them inputs are made from the first model's shapes.
        preprocess: How images, audio or text become arrays.
        samples: Use that many samples, evenly spread; by default 16.
        skip_bad_samples: Leave unreadable samples out instead of stopping.
        cache: Where samples are kept on disk between passes, a folder or a size; see `ptq.data.open_samples`.
        seconds: Time for all runs of each model.
        memory: Measure the peak memory of each model that is a file, in a process of its own.
        threads: Threads of ONNX Runtime, and of ptq itself; 0 is one for each core.
        runtime: What runs all models, such as ``ort`` or ``openvino``. None is LiteRT if one of them is a `.tflite`
            file, else ONNX Runtime. Peak memory is measured in ONNX Runtime only.
        progress: Called with each stage and its number of steps; see `ptq.core.run_options.Progress`.

    Raises:
        ModelError: A model cannot be read or run, or its inputs differ from those of the first.
        DataError: A sample is missing, unreadable or does not fit, or a model fails on inputs made from shapes.
        UsageError: An option makes no sense.
        UnsupportedError: The runtime is not installed.
        Cancelled: The progress callback returned False or raised an exception.
    """
    if runtime is not None:
        require_choice("runtime", runtime, [n for n in get_args(RuntimeName) if n != "integer"])
    given = _list_models(models)
    if not given:
        raise UsageError("no model to time; give at least one")
    contents = [read_tflite_content(model) for model in given]
    is_chosen = runtime is None and contents.count(None) < len(given)
    runtime = runtime or ("litert" if is_chosen else "ort")
    seconds = require_number("seconds", seconds, least=0)
    memory = require_flag("memory", memory)
    run = RunOptions(threads=threads, progress=progress)
    graphs = [open_model(model) for model in given]
    floats = [open_with_float_border(graph) for graph in graphs]
    for graph, model in zip(floats[1:], given[1:], strict=True):
        _require_same_inputs(floats[0], graph, display_name(model))
    reading = SampleOptions(preprocess, samples, skip_bad_samples, cache=cache)
    opened = _read_feeds(floats[0], data, reading)
    for graph, model in zip(floats, given, strict=True):
        require_own_batch(graph, opened[0].feed, display_name(model))
    feeds = [[to_border_feed(graph, sample.feed) for sample in opened] for graph in graphs]
    advance = run.start_stage("loading", len(graphs))
    sessions, load_times = list[Session | RuntimeModel](), list[float]()
    for model, graph, content, own in zip(given, graphs, contents, feeds, strict=True):
        with explain_failure(graph), _explain_choice(display_name(model), chosen=is_chosen):
            loads = [_load(graph, content, runtime, threads) for _ in range(2)]
        sessions.append(loads[-1][0])
        load_times.append(min(taken for _, taken in loads))
        del loads
        _run_first(sessions[-1], replace(opened[0], feed=own[0]), made=data is None)
        advance()
    advance = run.start_stage("timing", None)
    rounds = time_in_turns(sessions, feeds, seconds=seconds * len(sessions), most=MAX_ROUNDS)
    advance.end()
    placed = [() if isinstance(s, Session) else s.placement() for s in sessions]
    del sessions
    timed = []
    for index, (model, graph) in enumerate(zip(given, graphs, strict=True)):
        path = get_source_path(model)
        times = [1000 * row[index] for row in rounds]
        speed = summarize_ratios([row[0] / row[index] for row in rounds]) if index else None
        timed.append(
            TimedModel(
                model=display_name(model),
                bytes=count_serialized_bytes(graph.model)
                if path is None
                else count_file_bytes(path),
                load_ms=1000 * load_times[index],
                run_ms=float(np.median(times)),
                run_interval=compute_median_interval(times),
                speed=None if speed is None else speed.ratio,
                speed_interval=None if speed is None else speed.interval,
                peak_bytes=measure_peak_memory(path, feeds[index][0], threads)
                if memory and path is not None and runtime == "ort"
                else None,
                slow=(TRANSLATED,)
                if contents[index] is not None and runtime != "litert"
                else _find_slow_parts(graph, placed[index], runtime),
            )
        )
    shapes = {name: array.shape for name, array in opened[0].feed.items()}
    used = 0 if data is None else len(opened)
    return Benchmark(tuple(timed), len(rounds), used, threads, shapes, runtime)


def _list_models(models: Model | Sequence[Model]) -> list[Model]:
    return [*models] if isinstance(models, (list, tuple)) else [cast("Model", models)]


def _read_feeds(graph: Graph, data: DataSource | None, reading: SampleOptions) -> list[Sample]:
    if data is None:
        names = {get_name(value): get_axis_names(value) for value in graph.inputs}
        return [Sample("inputs made from shapes", make_feed(list_input_specs(graph), names))]
    if isinstance(data, (str, os.PathLike)) and Path(data).suffix.lower() in (".onnx", SUFFIX):
        raise UsageError(f"data {data} is a model; give all models as a list", "data")
    opened = reading.open(data, graph)
    return list(opened.spread(MAX_FEEDS) if reading.samples is None else opened)


def _find_slow_parts(
    graph: Graph, placed: Sequence[Placement], runtime: RuntimeName
) -> tuple[str, ...]:
    if runtime == "ort":
        patterns = find_slow_patterns(graph) if is_quantized(graph) else ()
        return tuple(str(pattern) for pattern in patterns)
    return tuple(filter(None, [describe_fallback(placed)]))


def _load(
    graph: Graph, content: bytes | None, runtime: RuntimeName, threads: int
) -> tuple[Session | RuntimeModel, float]:
    start = perf_counter()
    session: Session | RuntimeModel
    if runtime == "ort":
        session = Session.for_timing(graph, threads=threads)
    elif content is not None and runtime == "litert":
        session = InterpretedModel(graph, threads=threads, content=content)
    else:
        session = open_in_runtime(runtime, graph, threads=threads)
    return session, perf_counter() - start


@contextmanager
def _explain_choice(name: str, *, chosen: bool) -> Iterator[None]:
    """Name a model that LiteRT does not take, where it was ``chosen`` for the `.tflite` file beside it."""
    try:
        yield
    except UnsupportedError as error:
        if not chosen:
            raise
        raise UnsupportedError(
            f"{name}: {error}; beside a .tflite file all models run in LiteRT, unless `runtime` is ort"
        ) from error


def _run_first(session: Session | RuntimeModel, sample: Sample, *, made: bool) -> None:
    """The first run, which is slower and not counted."""
    with name_sample(sample.name, advice="; give samples (data)" if made else ""):
        session.run(sample.feed)


def _require_same_inputs(first: Graph, other: Graph, name: str) -> None:
    types = [{get_name(v): str(get_dtype(v)) for v in graph.inputs} for graph in (first, other)]
    if types[0] != types[1]:
        inputs = [", ".join(f"{k} {v}" for k, v in found.items()) for found in types]
        raise ModelError(
            f"{name} has the inputs {inputs[1]}, and the first model has {inputs[0]}; "
            "time models with the same inputs"
        )
