"""Float, int8 and integers of one quantized model on its evaluation samples; int8 in the runtime that it is for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.core.stages import EVALUATING
from ptq.data import Samples
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.evaluation.changed_samples import ChangedSamples
from ptq.evaluation.checks.input_shift_check import InputShiftCheck, summarize_calibration_inputs
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.evaluate import evaluate_engines
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.runs.engines import (
    Engine,
    make_float16_engine,
    make_integer_engine,
    make_session_engine,
    open_engine_of_halves,
    open_integer_engine,
    open_session_engine,
)
from ptq.evaluation.runs.model_outputs import SessionOpener
from ptq.evaluation.runs.run_forms import KnownOutputs, Opener
from ptq.evaluation.runs.session_cache import open_engine
from ptq.evaluation.tasks.task import TaskRequest
from ptq.evaluation.user_metric import Metric
from ptq.executor.executor import Executor
from ptq.executor.runtimes.registry import TargetRuntime
from ptq.executor.runtimes.runtime import RuntimeModel
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.solver.quantizer import QuantizedModel


@dataclass(frozen=True, eq=False)
class QuantizedForms:
    """The forms of a quantized model, and what is measured of them.

    Attributes:
        quantized: The model.
        samples: The evaluation samples.
        float_session: The float model.
        float_opener: Opens it in another process.
        known: Outputs of the float model that are known.
        int8_session: The quantized model in ONNX Runtime.
        executor: The quantized model in the integer executor.
        floats: Integer tensors that the executor computes in float.
        metric: Metric of the drops, as for `evaluate_engines`.
        task: What the outputs decide; None to recognize it.
        has_half_border: Whether inputs and outputs of the written model are float16.
        run: How the job runs.
    """

    quantized: QuantizedModel
    samples: Samples
    float_session: Session
    float_opener: SessionOpener
    known: KnownOutputs
    int8_session: Session
    executor: Executor
    floats: frozenset[str]
    metric: Metric | None
    task: TaskRequest | None
    has_half_border: bool
    run: RunOptions

    def evaluate(
        self, inside: TargetRuntime | None
    ) -> tuple[Evaluation, InputShiftCheck, Diagnosis | None]:
        """Evaluate in the runtime that the model is for; in ONNX Runtime if that one does not run it.

        Args:
            inside: The runtime; None for ONNX Runtime.

        Returns:
            The evaluation; the check of its inputs; what it means that the runtime does not run the model.

        Raises:
            DataError: A sample is unreadable or does not fit, or the model or the metric fails on one.
        """
        problem = "" if inside is None else inside.problem
        if inside is not None and inside.measured_model is not None:
            try:
                evaluation, shift = self._evaluate(inside.measured_model)
            except (DataError, ModelError) as error:
                problem = str(error)
            else:
                return replace(evaluation, runtime=inside.runtime.name), shift, None
        refusal = _explain_refusal(inside, problem) if inside is not None and problem else None
        return *self._evaluate(None), refusal

    def _evaluate(self, inside: RuntimeModel | None) -> tuple[Evaluation, InputShiftCheck]:
        model, graph = self.quantized.calibrated_model, self.quantized.quantized_graph
        source, shift = model.source, InputShiftCheck(summarize_calibration_inputs(model))
        job, fixed = self.run.for_job(), inside is not None and inside.fixed_batch
        evaluation = evaluate_engines(
            make_session_engine(self.float_session),
            {
                "int8": self._at_border(
                    make_session_engine(self.int8_session if inside is None else inside)
                ),
                "integers": self._at_border(make_integer_engine(self.executor, graph)),
            },
            self.run.track(self.samples, EVALUATING),
            [get_name(v) for v in source.outputs],
            batch=1 if fixed else choose_batch(self.run, source),
            metric=self.metric,
            task=TaskRequest.from_graph(None, source) if self.task is None else self.task,
            labelling=lambda: self.samples.labelling,
            changed=ChangedSamples("int8", self.samples.preprocess, source.metadata),
            watch=shift.add,
            openers=[
                partial(open_engine, self.float_opener),
                self._open_at_border(partial(open_session_engine, graph, job))
                if inside is None
                else None,
                self._open_at_border(
                    partial(open_integer_engine, graph, self.executor.arithmetic, self.floats)
                ),
            ],
            known={} if fixed else self.known,  # those of other batches may differ in the last bit
            run=self.run,
        )
        return evaluation, shift

    def _at_border(self, engine: Engine) -> Engine:
        return make_float16_engine(engine) if self.has_half_border else engine

    def _open_at_border(self, opener: Opener) -> Opener:
        return partial(open_engine_of_halves, opener) if self.has_half_border else opener


def _explain_refusal(inside: TargetRuntime, reason: str) -> Diagnosis:
    """What it means that a runtime does not load the model that was made for it, or fails on a sample.

    Args:
        inside: The runtime.
        reason: Its own words.
    """
    title = inside.runtime.title
    if inside.model is not None:
        what = f"{title} fails on a sample, so accuracy is that of ONNX Runtime: {reason}"
        advice = "give samples of the shapes that the file takes; if a node is named, keep it in float (option skip)"
    else:
        what = f"{title} cannot load it: {reason}"
        advice = "do not use it there; keep the node that is named in float (option skip), and report this"
    return Diagnosis(
        what, "the quantized model", advice, serious=True, headline=True, topic="does-not-load"
    )
