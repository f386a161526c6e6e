"""Options of every verb that make no sense: one line in plain words, before any run.

The oracle is the docstring of each verb: what it does not accept is a UsageError that names the option, the value
and what is accepted, without an option of the command line.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import typing
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from networks import build_network
from parts import CONV, WB
from PIL import Image

import ptq
from ptq.core.run_options import RunOptions
from ptq.core.targets import TARGETS
from ptq.data import InputSpec
from ptq.data.splits import SampleOptions
from ptq.evaluation.tasks.task import TaskName
from ptq.executor.arithmetics import ARITHMETICS
from ptq.observers import OBSERVERS
from ptq.optimization.options import QuantizeOptions
from ptq.solver.recipe import AUTO

MODEL = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
DATA = {"x": np.zeros((4, 3, 8, 8), np.float32)}
WHOLE = "is not a whole number"

QUANTIZE = [
    ({"static_batch": 10**30}, f"static_batch 1{'0' * 30} {WHOLE} from 1 to 2147483647"),
    ({"form": "qop"}, "form 'qop' is unknown; choose one of qdq, qoperator"),
    ({"form": None}, "form None is unknown"),
    ({"weights": "x"}, "weights 'x' is unknown; choose one of auto, s8, reduced, u8"),
    ({"rounding": "x"}, "rounding 'x' is unknown; choose one of second-order, nearest"),
    ({"rounding": "neares"}, r"\(did you mean nearest\?\)"),
    ({"method": "foo"}, "method 'foo' is unknown; choose one of auto, minmax, percentile, kl, mse"),
    ({"method": 3}, "method 3 is unknown"),
    ({"target": "tensorr"}, r"target 'tensorr' is unknown; .* \(did you mean tensorrt\?\)"),
    ({"arithmetic": "abacus"}, "arithmetic 'abacus' is unknown; choose one of ort, ort-avx2"),
    ({"metric": math.sqrt}, r"metric sqrt cannot be called with two arguments \(.*; write metric"),
    ({"batch": 0}, f"batch 0 {WHOLE} of at least 1"),
    ({"batch": 1.5}, f"batch 1.5 {WHOLE}"),
    ({"batch": True}, f"batch True {WHOLE}"),
    ({"threads": -1}, f"threads -1 {WHOLE} from 0 to 1024"),
    ({"threads": "2"}, f"threads '2' {WHOLE}"),
    ({"samples": 0}, f"samples 0 {WHOLE} of at least 1"),
    ({"max_drop": "abc"}, "max_drop 'abc' is not a finite number of at least 0"),
    ({"max_drop": -1}, "max_drop -1 is not a finite number of at least 0"),
    ({"max_drop": float("nan")}, "max_drop nan is not"),
    ({"per_tensor": "no"}, "per_tensor 'no' is not True or False"),
    ({"equalize": None}, "equalize None is not True or False"),
    ({"correct_bias": 1}, "correct_bias 1 is not True or False"),
    ({"split_outliers": "yes"}, "split_outliers 'yes' is not True or False"),
    ({"effort": "quick"}, "effort 'quick' is unknown; choose one of fast, default, best"),
    ({"skip_bad_samples": 0}, "skip_bad_samples 0 is not True or False"),
    ({"opset": "kep"}, r"opset 'kep' is unknown; choose one of auto, keep \(did you mean keep\?\)"),
    ({"strict": "yes"}, "strict 'yes' is not True or False"),
    ({"skip": 5}, "skip 5 is not a name or a collection of names"),
    ({"skip": np.array(2)}, r"skip array\(2\) is not a name or a collection of names"),
    ({"skip": [5]}, r"skip \[5\] is not a name or a collection of names"),
    ({"skip": "Conv_z"}, "Conv_z"),
    ({"metric": "top1"}, "metric of type str is not a callable"),
    ({"progress": 1}, "progress of type int is not a callable"),
    ({"stats": 5}, "stats of type int is not a path or a Calibration"),
    ({"plan": 5}, "plan of type int is not a path or a Plan"),
    ({"checkpoint": 5}, "checkpoint of type int is not a path"),
    ({"preprocess": {"mean": 0.3}}, r"preprocess of type dict; pass ptq.Preprocess\(mean="),
    ({"data": 5}, "^data of type int"),
    ({"eval_data": 5}, r"^eval_data of type int.* eval_data=\["),
    ({"data": None}, "no calibration data: pass data, stats or a plan"),
]


def _refused(call: Any, error: type[ptq.PtqError] = ptq.UsageError) -> str:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert not re.search(r"(^|\s)--[a-z]|Input should|Value error|NoneType|subscript|\(0\.", text)
    return text


@pytest.mark.parametrize(("options", "said"), QUANTIZE, ids=[str(row[0]) for row in QUANTIZE])
def test_s9_quantize_refuses_it_in_one_line(options: dict[str, Any], said: str) -> None:
    assert re.search(said, _refused(lambda: ptq.quantize(MODEL, **{"data": DATA, **options})))


@pytest.mark.parametrize(
    ("verb", "options", "said"),
    [
        ("calibrate", {"workers": 0}, f"workers 0 {WHOLE} of at least 1"),
        ("calibrate", {"batch": 0}, f"batch 0 {WHOLE} of at least 1"),
        ("calibrate", {"shard": 3}, r"shard 3 is not \(k, n\)"),
        ("calibrate", {"shard": (2, 2)}, "shard 2 of 2 does not exist; count from 0"),
        ("calibrate", {"shard": ("0", 2)}, f"shard '0' {WHOLE}"),
        ("evaluate", {"engine": "gpu"}, "engine 'gpu' is unknown; choose one of ort, integer"),
        ("evaluate", {"arithmetic": "x"}, "arithmetic 'x' is unknown"),
        ("evaluate", {"against": 5}, "model of type int"),
        ("evaluate", {"metric": 1}, "metric of type int is not a callable"),
        ("verify", {"arithmetic": "x"}, "arithmetic 'x' is unknown"),
        ("verify", {"optimize": "no"}, "optimize 'no' is not True or False"),
        ("verify", {"threads": -1}, f"threads -1 {WHOLE}"),
        ("sensitivity", {"measure": -1}, f"measure -1 {WHOLE} of at least 0"),
        ("sensitivity", {"target": "x"}, "target 'x' is unknown"),
        ("portability", {"threads": -1}, f"threads -1 {WHOLE}"),
        ("portability", {"samples": 0}, f"samples 0 {WHOLE} of at least 1"),
    ],
)
def test_s9_every_verb_refuses_it_in_one_line(
    verb: str, options: dict[str, Any], said: str
) -> None:
    assert re.search(said, _refused(lambda: getattr(ptq, verb)(MODEL, DATA, **options)))


VERBS = [
    "calibrate", "compare", "convert", "evaluate", "inspect", "lint", "log_to_mlflow", "open_samples",
    "portability", "quantize", "sensitivity", "verify",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_docstring_of_a_verb_explains_each_argument(verb: str) -> None:
    text = inspect.getdoc(getattr(ptq, verb)) or ""
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^ +(\w+): ", arguments, re.MULTILINE)) >= set(
        inspect.signature(getattr(ptq, verb)).parameters
    )


@pytest.mark.parametrize("name", get_args(TaskName))
def test_the_docstring_of_quantize_names_each_task(name: str) -> None:
    assert f"``{name}``" in (ptq.quantize.__doc__ or "")


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_keyword_is_named_with_the_most_similar_one(verb: str) -> None:
    function = getattr(ptq, verb)
    known = list(inspect.signature(function).parameters)[-1]
    with pytest.raises(ptq.UsageError) as caught:
        function(**{f"{known}_": 1})
    assert str(caught.value) == f"unknown option '{known}_'; did you mean {known!r}?"
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("kind", [ptq.Preprocess, ptq.AudioPreprocess, ptq.TextPreprocess])
def test_an_unknown_field_of_preprocessing_is_named_too(kind: Any) -> None:
    field = next(iter(inspect.signature(kind).parameters))
    with pytest.raises(ptq.UsageError, match=f"unknown option '{field}_'; did you mean '{field}'"):
        kind(**{f"{field}_": 1})
    with pytest.raises(TypeError) as caught:
        kind(zzzz=1)
    assert "self" not in str(caught.value)


def test_an_unknown_keyword_that_resembles_none_lists_all() -> None:
    with pytest.raises(TypeError, match="unknown option 'zzz'; known: model, target, skip, opset"):
        ptq.inspect(MODEL, zzz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown option 'dta'; did you mean 'data'"):
        ptq.quantize(MODEL, dta=DATA)  # type: ignore[call-arg]


OPTIONS = [
    (verb, name)
    for verb in VERBS
    for name, parameter in inspect.signature(getattr(ptq, verb)).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
]


@pytest.mark.parametrize(
    ("verb", "option"), [o for o in OPTIONS if o[0] not in ("log_to_mlflow", "open_samples")]
)
def test_every_option_of_every_verb_refuses_what_it_cannot_be(verb: str, option: str) -> None:
    given = {"convert": (MODEL, "qdq"), "lint": (MODEL,), "inspect": (MODEL,)}
    arguments = given.get(verb, (MODEL, MODEL, DATA) if verb == "compare" else (MODEL, DATA))
    with pytest.raises(ptq.PtqError):
        getattr(ptq, verb)(*arguments, **{option: object()})


@pytest.mark.parametrize("size", [3, 0, -1, "3", "0GB", 2.5, True, object()])
def test_a_cache_of_no_size_is_refused_before_a_run(size: Any) -> None:
    said = _refused(lambda: ptq.quantize(MODEL, DATA, cache=size))
    assert said.startswith("cache ")


def test_verbs_without_data_refuse_it_too() -> None:
    assert "form 'x' is unknown" in _refused(lambda: ptq.convert(MODEL, "x"))  # type: ignore[arg-type]
    assert "integers 1 is not" in _refused(lambda: ptq.convert(MODEL, "qdq", integers=1))  # type: ignore[arg-type]
    assert "target 'x' is unknown" in _refused(lambda: ptq.lint(MODEL, target="x"))  # type: ignore[arg-type]
    assert "target 'x' is unknown" in _refused(lambda: ptq.inspect(MODEL, target="x"))  # type: ignore[arg-type]
    assert "skip 5 is not a name" in _refused(lambda: ptq.inspect(MODEL, skip=5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"std": 0}, "std 0 is not positive"),
        ({"std": (1, 0, 1)}, "std 1, 0, 1 is not positive"),
        ({"mean": "abc"}, "mean 'abc' is not a finite number"),
        ({"mean": (0.1, 0.2)}, "mean has 2 values; give 1 or 3"),
        ({"mean": (0.1, float("inf"), 0)}, "mean inf is not a finite number"),
        ({"scale": 0}, "scale 0 is not a finite number other than 0"),
        ({"scale": "x"}, "scale 'x' is not a finite number"),
        ({"size": 224}, "size 224 is not a height and a width"),
        ({"size": (0, 5)}, f"size 0 {WHOLE} of at least 1"),
        ({"resize": 0}, f"resize 0 {WHOLE} of at least 1"),
        ({"layout": "NCWH"}, r"layout 'NCWH' is unknown; choose one of NCHW, NHWC"),
        ({"channels": 3}, "channels 3 is unknown; choose one of RGB, BGR, GRAY"),
    ],
)
def test_preprocess_refuses_it_in_one_line(options: dict[str, Any], said: str) -> None:
    assert said in _refused(lambda: ptq.Preprocess(**options))


def test_one_number_is_a_mean_for_every_channel() -> None:
    assert ptq.Preprocess(mean=0.3, std=np.float32(0.5)) == ptq.Preprocess(mean=(0.3,), std=(0.5,))  # type: ignore[arg-type]


def test_a_string_is_one_node_and_numpy_numbers_are_numbers() -> None:
    by_string = ptq.inspect(MODEL, skip="Conv")
    assert by_string == ptq.inspect(MODEL, skip=["Conv"])
    found = ptq.quantize(
        MODEL, DATA, skip="Conv_c", batch=np.int64(2), samples=np.int32(2), threads=1
    )
    assert set(found.plan.floats) >= {"Conv_c"}
    assert found.report.calibration_samples == 2


def test_a_path_may_stand_for_a_plan_and_for_statistics(tmp_path: Path) -> None:
    first = ptq.quantize(MODEL, DATA, threads=1)
    first.plan.save(tmp_path / "plan.json")
    first.calibration.save(tmp_path / "stats.npz")
    again = ptq.quantize(MODEL, DATA, plan=str(tmp_path / "plan.json"), threads=1)
    assert again.graph.digest() == first.graph.digest()
    assert ptq.quantize(MODEL, stats=tmp_path / "stats.npz", threads=1).plan.target == "ort"
    missing = tmp_path / "none.json"
    said = _refused(lambda: ptq.quantize(MODEL, DATA, plan=missing), ptq.PlanError)
    assert "none.json: cannot be read" in said


@pytest.mark.parametrize(
    ("alias", "table"),
    [
        (ptq.TargetName, TARGETS),
        (ptq.MethodName, (AUTO, *OBSERVERS)),
        (ptq.ArithmeticName, ARITHMETICS),
    ],
)
def test_a_literal_type_has_the_names_of_its_table(alias: object, table: Any) -> None:
    assert get_args(alias) == tuple(table)


ALIASES = {
    "target": ptq.TargetName,
    "method": ptq.MethodName,
    "arithmetic": ptq.ArithmeticName,
    "form": ptq.QuantizedForm,
    "weights": ptq.WeightFormatOption,
    "rounding": ptq.RoundingMethod,
    "engine": ptq.EngineName,
    "opset": ptq.OpsetOption,
}


def test_public_signatures_use_the_literal_types() -> None:
    seen = set()
    for name in ptq.__all__:
        verb = getattr(ptq, name)
        if not inspect.isfunction(verb):
            continue
        for option, hint in typing.get_type_hints(verb).items():
            if option in ALIASES:
                seen.add(option)
                assert hint == ALIASES[option] or ALIASES[option] in get_args(hint), (name, option)
    assert seen == set(ALIASES)


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    """JSON refuses those of numpy, and sums of an int8 overflow."""
    flags = ("per_tensor", "correct_bias", "equalize", "split_outliers", "strict")
    given = {**dict.fromkeys(flags, np.bool_(True)), "max_drop": np.float32(1)}
    kept = (
        QuantizeOptions(**given, min_speedup=np.float64(1), static_batch=np.int64(2)),  # type: ignore[arg-type]
        RunOptions(threads=np.int8(1), calibration_batch=np.int8(4), evaluation_batch=np.int8(4)),  # type: ignore[arg-type]
        SampleOptions(
            samples=np.int32(4), skip_bad=np.bool_(False), shard=(np.int8(0), np.int8(2))
        ),  # type: ignore[arg-type]
        ptq.Preprocess(resize=np.int16(4), scale=np.float32(2)),  # type: ignore[arg-type]
        ptq.Preprocess(letterbox=np.uint8(4), size=(4, 4)),  # type: ignore[arg-type]
    )
    values = [value for one in kept for value in vars(one).values()]
    values += kept[2].shard or ()
    assert not any(isinstance(value, np.generic) for value in values)


def test_a_report_of_numbers_of_numpy_is_json() -> None:
    limits: dict[str, Any] = {"max_drop": np.float32(100), "min_speedup": np.float32(0)}
    result = ptq.quantize(
        MODEL, DATA, eval_data=DATA, effort="fast", force=np.bool_(True),  # type: ignore[arg-type]
        batch=np.int8(4), threads=1, per_tensor=np.bool_(True), **limits,
    )  # fmt: skip
    document = json.loads(result.report.to_json())
    assert (document["budget"]["points"], document["min_speedup"]) == (100, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit": 3.0}, f"limit 3.0 {WHOLE}"),
        ({"limit": True}, f"limit True {WHOLE}"),
        ({"shard": "0/2"}, "shard '0/2' is not (k, n)"),
        ({"inputs": "model.onnx"}, "inputs 'model.onnx' are no list of InputSpec"),
        ({"inputs": ["x"]}, "inputs ['x'] are no list of InputSpec"),
    ],
)
def test_samples_are_opened_with_options_that_make_sense(options: Any, said: str) -> None:
    inputs = [InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    arguments = {"inputs": inputs, **options}
    assert said in _refused(lambda: ptq.open_samples(DATA, **arguments))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.full((2, 3, 8, 8), np.nan, np.float32), "eval_data[0]: input 'x' contains NaN"),
        (np.zeros((2, 5, 8, 8), np.float32), "eval_data array 'x' (its leading axis"),
        ({"z": np.zeros(2)}, "eval_data: arrays must be named"),
        ([], "eval_data: returns no samples"),
    ],
    ids=["NaN", "shape", "name", "empty"],
)
def test_a_wrong_eval_data_is_named_not_data(wrong: Any, said: str) -> None:
    text = _refused(
        lambda: ptq.quantize(MODEL, DATA, eval_data=wrong, effort="fast"), ptq.DataError
    )
    assert text.startswith(said)


def _stop(stage: str, steps: int | None) -> Any:
    """A stage that begins ends the run as cancelled."""
    raise RuntimeError(stage)


@pytest.mark.parametrize("verb", [ptq.quantize, ptq.sensitivity])
def test_a_task_that_no_output_fits_is_refused_before_any_stage(verb: Any) -> None:
    text = _refused(lambda: verb(MODEL, DATA, task="classify", progress=_stop))
    assert text.startswith("task classify: no output fits (y [1, 8, 8, 8])")
    with pytest.raises(ptq.Cancelled):
        verb(MODEL, DATA, task="segment", progress=_stop)


def test_characters_for_a_model_that_reads_no_texts_are_refused(tmp_path: Path) -> None:
    letters = tmp_path / "letters.txt"
    letters.write_text("a\nb\n")
    text = _refused(lambda: ptq.quantize(MODEL, DATA, alphabet=letters, progress=_stop))
    assert text.startswith("`alphabet` has no effect: the model is no recognizer of texts")
    text = _refused(lambda: ptq.evaluate(MODEL, DATA, against=MODEL, alphabet=letters))
    assert text.startswith("`alphabet` has no effect: the model is no recognizer of texts")
    for more in ({"task": "segment"}, {"metric": lambda outputs, samples: 1.0}):
        text = _refused(lambda more=more: ptq.quantize(MODEL, DATA, alphabet=letters, **more))  # type: ignore[misc]
        assert text.startswith("`alphabet` belongs to task ctc, and has no effect with")


@pytest.mark.parametrize("name", ["alphabet", "transcripts"])
def test_boxes_beside_labels_of_texts_are_refused_before_any_stage(
    tmp_path: Path, name: Any
) -> None:
    (tmp_path / "boxes").mkdir()
    texts = tmp_path / "texts.txt"
    texts.write_text("a\nb\n")
    more = {"boxes": tmp_path / "boxes", name: texts, "progress": _stop}
    text = _refused(lambda: ptq.quantize(MODEL, DATA, **more))
    assert text == f"a model finds boxes or reads texts; give `boxes` or `{name}`"


class _BytesPath:
    """A path of bytes, which ptq does not take."""

    def __fspath__(self) -> bytes:
        return b"place"


PATHS = (
    "stats",
    "plan",
    "checkpoint",
    "transcripts",
    "alphabet",
    "boxes",
    "cost_table",
)


@pytest.mark.parametrize("option", PATHS)
def test_a_path_that_no_file_can_have_is_refused_with_its_option(option: str) -> None:
    wrong: Any
    for wrong, said in (("a\0b", "has a null character"), (_BytesPath(), "is a path of bytes")):
        given = {option: wrong}
        text = _refused(lambda given=given: ptq.quantize(MODEL, DATA, **given))  # type: ignore[misc]
        assert text.startswith(f"{option} ")
        assert said in text


@pytest.mark.parametrize("load", [ptq.Plan.load, ptq.Calibration.load])
def test_a_file_to_load_has_a_name_without_null(load: Any) -> None:
    assert "has a null character" in _refused(lambda: load("a\0b"))


def test_a_plan_is_read_from_text_and_a_model_from_a_path_of_text() -> None:
    wrong: Any = 5
    assert "text of type int" in _refused(lambda: ptq.Plan.from_json(wrong))
    wrong = _BytesPath()
    assert "model of type _BytesPath is a path of bytes" in _refused(lambda: ptq.inspect(wrong))
    assert "data of type _BytesPath is a path of bytes" in _refused(
        lambda: ptq.calibrate(MODEL, wrong)
    )


def test_labels_in_a_list_may_be_none_and_others_are_named_by_their_place() -> None:
    inputs = [InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    known = ptq.open_samples({**DATA, "labels": [None, 0, 2, None]}, inputs)
    assert [sample.labels for sample in known] == [(), (0,), (2,), ()]
    wrong: Any = {**DATA, "labels": [0, 1, b"0", 1]}
    text = _refused(lambda: ptq.open_samples(wrong, inputs), ptq.DataError)
    assert text.startswith("data array 'labels': label 2 has type bytes; give class ")


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_has_no_order_but_the_keys_of_a_dict_have(kind: Any, tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.png" for k in range(2)]
    for path in paths:
        Image.new("RGB", (8, 8)).save(path)
    inputs = [InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    for wrong in (kind(paths), lambda: kind(paths)):
        text = _refused(lambda wrong=wrong: ptq.open_samples(wrong, inputs))  # type: ignore[misc]
        assert text.endswith("; give a list: a set has no order")
    assert len(list(ptq.open_samples(dict.fromkeys(paths).keys(), inputs))) == 2


def test_a_runtime_that_is_an_array_is_refused() -> None:
    wrong: Any = np.array([1, 2])
    quantized = ptq.quantize(MODEL, DATA, effort="fast", force=True)
    assert "runtime array" in _refused(lambda: ptq.verify(quantized, DATA, runtime=wrong))


def test_only_a_result_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: Any = 3
    assert "result of type int cannot be logged" in _refused(lambda: ptq.log_to_mlflow(wrong))
    assert not list(tmp_path.iterdir())
