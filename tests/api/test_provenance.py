"""What a quantized model says of how it was made."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import fields
from typing import Any

import numpy as np
import onnxruntime
import pytest
from brightness import brightness_model

import ptq
from ptq.data.sample_digest import combine_digests, digest_feed
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS, PROVENANCE, read_record
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.optimization.options import QuantizeOptions, list_result_options

RNG = np.random.default_rng(2)
SAMPLES = {"x": RNG.standard_normal((20, 3, 8, 8)).astype(np.float32)}
EVALUATION = {"x": RNG.standard_normal((9, 3, 8, 8)).astype(np.float32)}


def quantized(**options: Any) -> ptq.Result:
    settings = {"eval_data": EVALUATION, "method": "minmax", "threads": 1, **options}
    return ptq.quantize(brightness_model(), SAMPLES, **settings)


def digest_of(arrays: np.ndarray[Any, Any]) -> str:
    return combine_digests(digest_feed({"x": a[None]}) for a in arrays)


def test_the_record_holds_tool_options_digests_runtime_and_drop() -> None:
    made = quantized(skip=["GlobalAveragePool"], rounding="nearest")
    record = read_record(made.graph, PROVENANCE)
    assert record is not None
    assert (record["tool"], record["version"]) == ("ptq", ptq.__version__)
    assert record["options"]["skip"] == ["GlobalAveragePool"]
    assert record["options"]["rounding"] == "nearest"
    assert record["options"]["weights"] == ("s8" if has_exact_int8_sums() else "reduced")
    assert record["digests"] == {
        "float_model": Graph.from_proto(brightness_model()).digest(),
        "plan": hashlib.sha256(made.plan.to_json().encode()).hexdigest(),
        "calibration_samples": digest_of(SAMPLES["x"]),
        "evaluation_samples": digest_of(EVALUATION["x"]),
    }
    assert record["calibration_samples"] == 20
    assert record["onnxruntime"] == onnxruntime.__version__
    assert record["processor"]["exact_int8_sums"] == has_exact_int8_sums()
    assert made.report.evaluation is not None
    drop = made.report.evaluation.forms["int8"].drop
    assert drop is not None
    assert record["drop"]["metric"] == drop.metric
    for key in ("points", "lo", "hi"):
        assert record["drop"][key] == pytest.approx(getattr(drop, key), rel=1e-3)
    assert read_record(made.graph, PREPROCESS) == {"source": "feeds"}


def test_the_digest_of_the_samples_does_not_depend_on_their_order() -> None:
    turned = {"x": SAMPLES["x"][::-1].copy()}
    records = [
        read_record(
            ptq.quantize(brightness_model(), data, method="minmax", threads=1).graph, PROVENANCE
        )
        for data in (SAMPLES, turned)
    ]
    digests = [record["digests"]["calibration_samples"] for record in records if record]
    assert digests[0] == digests[1]


def test_two_runs_give_the_same_record_with_any_batch_and_nothing_of_this_machine() -> None:
    def metric(outputs: Any, samples: Any) -> float:
        return 0.5

    first, second = quantized(metric=metric), quantized(metric=metric, batch=3, threads=2)
    assert first.graph.to_bytes() == second.graph.to_bytes()
    text = first.graph.metadata[PROVENANCE]
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(text)["options"]["metric"] == "user"
    assert platform.node() not in text
    assert "/" not in text


def test_every_option_that_changes_the_model_is_recorded_and_none_that_does_not() -> None:
    listed = set(list_result_options(QuantizeOptions(), SampleOptions()))
    asked = {field.name for field in fields(QuantizeOptions)}
    # an arithmetic predicts the model, and a strict budget judges it; labels are data; a task is recorded where it
    # is given, and what is said of .tflite files with that form
    assert asked - listed == {"arithmetic", "strict", "labels", "task", "io", "static_batch"}
    tflite = QuantizeOptions(target="litert", form="tflite")
    assert {"io", "static_batch"} <= set(list_result_options(tflite, SampleOptions()))
    assert listed - asked == {"samples", "skip_bad_samples"}


def test_given_statistics_and_plans_are_named() -> None:
    made = quantized()
    again = quantized(plan=made.plan, stats=made.calibration)
    record = read_record(again.graph, PROVENANCE)
    assert record is not None
    assert record["given"] == ["plan", "statistics"]
    assert again.graph.digest() == made.graph.digest()


def test_the_report_has_the_size_of_the_file_with_its_metadata() -> None:
    made = quantized()
    assert made.report.int8_bytes == len(made.graph.to_bytes())


def test_a_record_of_an_earlier_run_is_replaced() -> None:
    model = brightness_model()
    entry = model.metadata_props.add()
    entry.key, entry.value = PROVENANCE, '{"tool":"other"}'
    made = ptq.quantize(model, SAMPLES, method="minmax", threads=1)
    record = read_record(made.graph, PROVENANCE)
    assert record is not None
    assert record["tool"] == "ptq"
    assert len([e for e in made.model.metadata_props if e.key == PROVENANCE]) == 1
