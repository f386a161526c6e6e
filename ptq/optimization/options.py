"""What the user asks of a quantization."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, get_args

from ptq.core.errors import UsageError
from ptq.core.option_checks import (
    MAX_BATCH,
    require_choice,
    require_count,
    require_flag,
    require_names,
    require_number,
)
from ptq.core.plan import Plan
from ptq.core.target import Target
from ptq.core.targets import TARGETS, TargetName, get_target
from ptq.data.splits import SampleOptions, SampleSplit
from ptq.evaluation.tasks.label_options import NO_LABEL_OPTIONS, LabelOptions
from ptq.evaluation.tasks.request import require_task
from ptq.evaluation.tasks.task import TaskName
from ptq.evaluation.user_metric import Metric, require_metric
from ptq.executor.arithmetics import ArithmeticName, get_kernels
from ptq.observers import OBSERVERS
from ptq.optimization.effort import DEFAULT_EFFORT, EFFORTS, EffortName
from ptq.optimization.preference import DEFAULT_PREFERENCE, PREFERENCES, PreferenceName
from ptq.rewrite.prepare.prepare import OpsetOption
from ptq.rewrite.tflite.write import DEFAULT_TFLITE, InputOutputType, TfliteOptions
from ptq.solver.recipe import (
    AUTO,
    DEFAULT_METHOD,
    MethodName,
    QuantizedForm,
    Recipe,
    RoundingMethod,
    WeightFormatOption,
    resolve_weight_format,
)
from ptq.solver.skipped_nodes import SKIPPED_REASON


@dataclass(frozen=True)
class QuantizeOptions:
    """What is asked, before anything is decided; ``ptq.quantize`` documents each option.

    Attributes:
        target: Name of the runtime.
        method: Name of the range method, or ``auto``.
        form: ``qdq``, ``qoperator`` or ``tflite``.
        weights: Integer format of weights, or ``auto``.
        per_tensor: One scale for a whole weight.
        skip: Nodes, or operators, that stay float; a string is one name. All become a tuple.
        correct_bias: Whether biases are corrected.
        rounding: How weights are rounded.
        equalize: Whether channels are equalized where that helps.
        split_outliers: Whether outlier channels are computed in float where that helps.
        arithmetic: Name of the integer arithmetic; None for the target's own.
        max_drop: The accuracy budget in points of the metric; None for none.
        metric: The user's metric; None for that of the task.
        opset: ``auto`` or ``keep``.
        strict: Whether the budget has to be shown to hold.
        effort: How many samples and runs each decision may take.
        prefer: How much speed may be spent on accuracy.
        min_speedup: The lowest speed relative to float; None for none.
        task: What the outputs decide; None to recognize it.
        io: Element type of inputs and outputs.
        static_batch: The batch of the quantized model; None leaves it open.
        labels: Files of labels of boxes or texts, of the samples that accuracy is measured on.
    """

    target: TargetName = "ort"
    method: MethodName = DEFAULT_METHOD
    form: QuantizedForm = "qdq"
    weights: WeightFormatOption = "auto"
    per_tensor: bool = False
    skip: Collection[str] | str = ()
    correct_bias: bool = True
    rounding: RoundingMethod = "second-order"
    equalize: bool = True
    split_outliers: bool = True
    arithmetic: ArithmeticName | None = None
    max_drop: float | None = None
    metric: Metric | None = None
    opset: OpsetOption = "auto"
    strict: bool = False
    effort: EffortName = DEFAULT_EFFORT
    prefer: PreferenceName = DEFAULT_PREFERENCE
    min_speedup: float | None = None
    task: TaskName | None = None
    io: InputOutputType = "float"
    static_batch: int | None = None
    labels: LabelOptions = NO_LABEL_OPTIONS

    def __post_init__(self) -> None:
        require_choice("target", self.target, TARGETS)
        require_choice("method", self.method, (AUTO, *OBSERVERS))
        require_choice("form", self.form, get_args(QuantizedForm))
        require_choice("weights", self.weights, get_args(WeightFormatOption))
        require_choice("rounding", self.rounding, get_args(RoundingMethod))
        for flag in ("per_tensor", "correct_bias", "equalize", "split_outliers", "strict"):
            object.__setattr__(self, flag, require_flag(flag, getattr(self, flag)))
        object.__setattr__(self, "skip", require_names("skip", self.skip))
        if self.arithmetic is not None:
            get_kernels(self.arithmetic)
        if self.max_drop is not None:
            points = require_number("max_drop", self.max_drop, least=0)
            object.__setattr__(self, "max_drop", points)
        if self.metric is not None:
            require_metric(self.metric)
        require_task(self.task, self.metric)
        self.labels.check_task(self.task, self.metric)
        require_choice("opset", self.opset, get_args(OpsetOption))
        require_choice("io", self.io, get_args(InputOutputType))
        if self.static_batch is not None:
            object.__setattr__(
                self,
                "static_batch",
                require_count("static_batch", self.static_batch, least=1, most=MAX_BATCH),
            )
        require_choice("effort", self.effort, EFFORTS)
        require_choice("prefer", self.prefer, PREFERENCES)
        if self.min_speedup is not None:
            speedup = require_number("min_speedup", self.min_speedup, least=0)
            object.__setattr__(self, "min_speedup", speedup)
        if self.strict and self.max_drop is None and self.min_speedup is None:
            raise UsageError("`strict` needs an accuracy budget; give `max_drop`")

    def check_target(self, plan: Plan | None = None) -> None:
        """Make sure that the target is that of the plan, and that it reads the form.

        The default target stands for any plan's.

        Raises:
            UsageError: It is another one, does not exist, or does not read the form.
        """
        row = self.target_row(plan)
        if self.target not in (QuantizeOptions.target, row.name):
            raise UsageError(
                f"the plan is for target {row.name}, not {self.target}; leave `target` out, or solve a plan for "
                f"{self.target}"
            )
        if self.form == "qoperator" and not row.reads_qoperator:
            raise UsageError(
                f"target {row.name} cannot read form qoperator, only QuantizeLinear and DequantizeLinear; "
                "choose `form` qdq"
            )
        if self.form == "tflite" and not row.writes_tflite:
            able = ", ".join(target.name for target in TARGETS.values() if target.writes_tflite)
            raise UsageError(
                f"a .tflite file needs another target than {row.name}; choose a `target` among {able}"
            )

    @property
    def tflite_options(self) -> TfliteOptions:
        """How a `.tflite` file is written."""
        return TfliteOptions(self.io, self.static_batch)

    def to_tflite_options(self, samples: SampleSplit) -> TfliteOptions:
        """The same, with the shapes of the first sample for axes that the model leaves open."""
        source = samples.calibration or samples.evaluation
        first = None if source is None else next(iter(source), None)
        shapes = {} if first is None else {name: a.shape for name, a in first.feed.items()}
        return replace(self.tflite_options, shapes=shapes)

    def target_row(self, plan: Plan | None) -> Target:
        """The target; that of the plan where one is given."""
        return get_target(self.target if plan is None else plan.target)

    def list_ineffective(self) -> list[str]:
        """The options that a plan leaves no effect, as sentences: their decisions are in the plan."""
        chosen = {
            f"method {self.method}": self.method != DEFAULT_METHOD,
            "per_tensor": self.per_tensor,
        }
        return [
            f"{name} has no effect: the plan has the scales"
            for name, is_given in chosen.items()
            if is_given
        ]

    def without_ineffective(self) -> QuantizeOptions:
        """These options as they act beside a plan."""
        return replace(self, method=DEFAULT_METHOD, per_tensor=False)

    def arithmetic_name(self, plan: Plan | None) -> str:
        """The arithmetic; the target's own where none is asked for."""
        return self.target_row(plan).arithmetic if self.arithmetic is None else self.arithmetic

    def to_recipe(self, plan: Plan | None) -> Recipe:
        """The recipe that these options resolve to.

        Raises:
            UsageError: The weight format does not go with the target or the plan.
        """
        row = self.target_row(plan)
        return Recipe(
            target=row.name,
            method=self.method,
            form=self.form,
            per_tensor=self.per_tensor,
            correct_bias=self.correct_bias,
            float_nodes=dict.fromkeys(require_names("skip", self.skip), SKIPPED_REASON),
            weights=resolve_weight_format(self.weights, row, plan),
            rounding=self.rounding,
            integer_border=self.io == "int8",
        )


def list_result_options(options: QuantizeOptions, reading: SampleOptions) -> dict[str, Any]:
    """The options that change the quantized model, as plain values by the names of ``ptq.quantize``.

    No path, no number of threads, and no batch is among them. A metric of the user is ``user``. The preprocessing is
    a record of its own (`ptq.data.preprocessing.recorded_preprocess`).
    """
    names = (
        "target", "method", "form", "weights", "per_tensor", "correct_bias", "rounding", "equalize",
        "split_outliers", "max_drop", "opset", "effort", "prefer", "min_speedup",
    )  # fmt: skip
    task: dict[str, Any] = {} if options.task is None else {"task": options.task}
    if options.form == "tflite" or options.tflite_options != DEFAULT_TFLITE:
        task |= {"io": options.io, "static_batch": options.static_batch}
    return {
        **{name: getattr(options, name) for name in names},
        **task,
        "skip": sorted(options.skip),
        "metric": None if options.metric is None else "user",
        "samples": reading.samples,
        "skip_bad_samples": reading.skip_bad,
    }
