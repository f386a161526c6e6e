"""Results as pipelines hold them: pickled, copied, printed, exported; the result itself is the oracle."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, WB

import ptq
from ptq.evaluation.budget import check_budget
from ptq.evaluation.drop import measure_agreement_drop
from ptq.evaluation.intervals import NO_INTERVAL
from ptq.evaluation.metrics import Figure
from ptq.evaluation.report.report_data import Diagnosis

MODEL = build_network(
    CONV + "r = Relu(c)\ng = GlobalAveragePool(r)\nf = Flatten(g)\ny = Gemm(f, m, k)",
    {"x": ("n", 3, 8, 8)},
    m=gaussian_array(8, 10),
    k=gaussian_array(10),
    **WB,
)
FEEDS = random_feeds(MODEL, 10)


@pytest.fixture(scope="module")
def result() -> ptq.Result:
    return ptq.quantize(MODEL, FEEDS, threads=1, max_drop=50)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_result_is_the_same_after_pickle_and_deepcopy(result, again, tmp_path: Path) -> None:
    other = again(result)
    assert other.graph.to_bytes() == result.graph.to_bytes()
    assert other.graph.digest() == result.graph.digest()
    assert other.plan.to_json() == result.plan.to_json()
    assert other.calibration.to_bytes() == result.calibration.to_bytes()
    assert other.report == result.report
    other.save(tmp_path / "again.onnx")
    result.save(tmp_path / "first.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "first.onnx").read_bytes()


def test_large_weights_outside_messages_survive_pickle() -> None:
    wide = build_network(
        "f = Flatten(x)\ny = Gemm(f, m)", {"x": ("n", 3, 80, 80)}, m=gaussian_array(19200, 10)
    )
    graph = ptq.model.graph.Graph.from_proto(wide)
    assert pickle.loads(pickle.dumps(graph)).to_bytes() == graph.to_bytes()


@pytest.mark.parametrize("name", ["report", "plan", "calibration", "itself"])
def test_each_part_has_a_short_repr_and_one_for_notebooks(result, name: str) -> None:
    part = result if name == "itself" else getattr(result, name)
    longer = replace(result.report, model="long/" * 200 + "m.onnx") if name == "report" else part
    assert len(repr(longer)) < 300
    assert type(part).__name__ in repr(part)
    assert part._repr_html_().startswith("<")
    assert type(pickle.loads(pickle.dumps(part))) is type(part)


def test_metrics_are_finite_or_infinite_floats_with_the_documented_names(result) -> None:
    metrics = result.report.metrics()
    int8 = result.report.evaluation.forms["int8"]
    fidelity = int8.outputs["y"]
    assert metrics["int8_sqnr_db"] == fidelity.sqnr_db
    assert metrics["int8_agreement"] == fidelity.agreement
    assert metrics["int8_drop_hi"] == int8.drop.hi
    assert metrics["size_ratio"] == result.report.float_bytes / result.report.int8_bytes
    assert metrics["over_budget"] in (0.0, 1.0)
    assert metrics["evaluation_samples"] == 10
    assert "float_top1" not in metrics  # there are no labels
    assert all(type(value) is float and not math.isnan(value) for value in metrics.values())


def test_the_metrics_count_every_warning_and_name_an_undecided_budget_and_a_slow_result(
    result,
) -> None:
    drop = measure_agreement_drop([True] * 12)
    report = replace(
        result.report, budget=check_budget(drop, 1.0), speed=0.8, speed_interval=(0.7, 0.9),
        min_speedup=1.5,
    )  # fmt: skip
    assert len(report.warnings) == len(report.suspects) + 2
    metrics = report.metrics()
    assert metrics["warnings"] == len(report.warnings)
    assert (metrics["over_budget"], metrics["budget_undecided"]) == (0, 1)
    assert (metrics["min_speedup"], metrics["too_slow"]) == (1.5, 1)
    fast = replace(report, min_speedup=0.5, budget=check_budget(drop, 50.0)).metrics()
    assert (fast["budget_undecided"], fast["too_slow"]) == (0, 0)
    neither = replace(report, budget=None, search=None, min_speedup=None).metrics()
    assert not {"budget_undecided", "too_slow", "min_speedup"} & set(neither)


def test_the_figures_of_a_task_are_metrics_with_their_intervals(result) -> None:
    figures = (Figure("mAP50-95", 0.4, (0.3, 0.5)), Figure("score", 2.0, NO_INTERVAL))
    evaluation = result.report.evaluation
    forms = {name: replace(form, figures=figures) for name, form in evaluation.forms.items()}
    metrics = replace(result.report, evaluation=replace(evaluation, forms=forms)).metrics()
    assert [metrics[f"int8_map50_95{end}"] for end in ("", "_lo", "_hi")] == [0.4, 0.3, 0.5]
    assert metrics["float_score"] == 2
    assert "float_score_lo" not in metrics


@pytest.mark.parametrize(("count", "held_out"), [(2, False), (8, True)])
def test_the_gain_of_rounding_is_on_held_out_samples_only_if_there_are_any(
    count: int, held_out: bool
) -> None:
    changes = ptq.quantize(MODEL, FEEDS[:count], threads=1, effort="fast").report.changes
    [line] = [line for line in changes if line.startswith("weight rounding")]
    assert ("held-out" in line) is held_out
    assert ("on the samples of the fit" in line) is not held_out


@pytest.mark.parametrize(
    "options",
    [{}, {"io": "int8"}, {"io": "float16"}, {"static_batch": 1}, {"metadata": False}],
    ids=str,
)
def test_the_sizes_of_a_report_are_those_of_the_files(options, tmp_path: Path) -> None:
    named = onnx.ModelProto.FromString(MODEL.SerializeToString())
    named.doc_string = "dropped when the model is read" * 40
    onnx.save(
        named,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    given = {"equalize": False, "rounding": "nearest", "threads": 1, **options}
    made = ptq.quantize(tmp_path / "model.onnx", FEEDS, **given)
    made.save(tmp_path / "q.onnx")
    files = [tmp_path / "model.onnx", tmp_path / "weights.bin"]
    assert made.report.float_bytes == sum(file.stat().st_size for file in files)
    assert made.report.int8_bytes == (tmp_path / "q.onnx").stat().st_size


def test_every_metric_is_documented(result) -> None:
    from ptq.evaluation.exports.flat_metrics import flatten_metrics

    documented = flatten_metrics.__doc__ or ""
    for name in result.report.metrics():
        form, _, rest = name.partition("_")
        known = f"``{name}``" in documented or name.startswith("nodes_")
        assert known or (
            form in ("float", "int8", "integers")
            and "``FORM_" + rest.removesuffix("_lo").removesuffix("_hi") in documented
        )


def test_markdown_holds_accuracy_size_warnings_and_escapes_names(result) -> None:
    odd = Diagnosis("a|b", "<t_1>\nnext", "look")
    text = replace(result.report, suspects=(odd,), model="a*b.onnx").to_markdown()
    fidelity = result.report.evaluation.forms["int8"].outputs["y"]
    assert f"{fidelity.sqnr_db:.1f}" in text
    assert "95 % CI" in text
    assert "size " in text
    assert r"&lt;t\_1&gt; next: a\|b; look" in text
    assert r"a\*b.onnx" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {7, 8}


def test_html_is_the_page_of_the_command_line(result) -> None:
    from ptq.evaluation.presentation import html

    assert result.report.to_html() == html.render_page(result.report)


def test_to_frame_needs_pandas_and_says_so(result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ptq.UsageError, match=r"install it with: pip install onnx-ptq\[pandas\]"):
        result.report.to_frame()


def test_to_frame_has_a_row_for_each_tensor_node_and_form(result) -> None:
    pytest.importorskip("pandas", reason="pandas is an extra")
    report = result.report
    assert list(report.to_frame()["name"]) == [row.name for row in report.tensors]
    assert list(report.to_frame("nodes")["fate"]) == [row.fate for row in report.nodes]
    assert list(report.to_frame("forms")["form"]) == ["float", "int8", "integers"]
    with pytest.raises(ptq.UsageError, match="table 'rows' is unknown"):
        report.to_frame("rows")


def test_plan_and_statistics_are_saved_and_loaded_as_files(result, tmp_path: Path) -> None:
    result.plan.save(tmp_path / "plan.json")
    result.calibration.save(tmp_path / "stats.npz")
    assert ptq.Plan.load(tmp_path / "plan.json").to_json() == result.plan.to_json()
    loaded = ptq.Calibration.load(str(tmp_path / "stats.npz"))
    assert loaded.to_bytes() == result.calibration.to_bytes()


def test_a_report_is_no_plan(result, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(result.report.to_json())
    with pytest.raises(ptq.PlanError, match=r"report.json: the file is a report, not a plan"):
        ptq.Plan.load(tmp_path / "report.json")


def test_convert_gives_something_to_save_and_to_give_to_other_verbs(result, tmp_path: Path) -> None:
    result.save(tmp_path / "qdq.onnx")
    converted = ptq.convert(tmp_path / "qdq.onnx", "qoperator")
    onnx.checker.check_model(converted.model)
    assert "QLinearConv" in {node.op_type for node in converted.model.graph.node}
    with pytest.raises(ptq.UsageError, match="is the input"):
        converted.save(tmp_path / "qdq.onnx")
    converted.save(tmp_path / "qlinear.onnx")
    copied = pickle.loads(pickle.dumps(converted))
    assert copied.graph.to_bytes() == (tmp_path / "qlinear.onnx").read_bytes()
    assert len(repr(converted)) < 300
    assert ptq.verify(converted, FEEDS[:2], threads=1).equal


def test_a_model_may_be_bytes_a_message_an_ir_model_or_a_result(result) -> None:
    data = result.model.SerializeToString()
    forms = [data, onnx.ModelProto.FromString(data), ir.from_proto(result.model), result]
    found = [ptq.verify(model, FEEDS[:2], threads=1).equal for model in forms]
    assert found == [True] * 4
    with pytest.raises(ptq.ModelError, match="the bytes are not an ONNX model"):
        ptq.inspect(b"\x07no model")
    with pytest.raises(ptq.UsageError, match="model of type int"):
        ptq.inspect(5)  # type: ignore[arg-type]


def test_the_report_as_json_is_read_by_json(result) -> None:
    assert json.loads(result.report.to_json())["target"] == "ort"


class _OneRun:
    """MLflow's module as far as it is used, with one active run; MLflow itself refuses other params too."""

    def __init__(self) -> None:
        self.params: dict[str, str] = {}
        self.metrics: dict[str, float] = {}
        self.log_params, self.log_metrics = self.params.update, self.metrics.update
        self.folders: list[str | None] = []

    def active_run(self) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id="1"))

    def get_run(self, run: str) -> Any:
        return SimpleNamespace(data=self)

    def log_artifacts(self, place: str, folder: str | None) -> None:
        self.folders.append(folder)


def test_a_run_of_mlflow_holds_one_result_and_a_refused_one_leaves_no_trace(
    result, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _OneRun()
    monkeypatch.setitem(sys.modules, "mlflow", run)
    wrong: Any
    for wrong, said in ((5, "folder of type int"), ("../x", "is no folder inside a run")):
        with pytest.raises(ptq.UsageError, match=said):
            ptq.log_to_mlflow(result, folder=wrong)
    assert not run.params
    assert not run.metrics
    for folder in ("first", "first/again", None):
        ptq.log_to_mlflow(result, folder=folder)
    other = replace(result, report=replace(result.report, target="openvino", int8_bytes=1))
    with pytest.raises(ptq.UsageError, match="target='ort', and this result has 'openvino'"):
        ptq.log_to_mlflow(other, folder="second")
    assert run.metrics["int8_bytes"] == result.report.int8_bytes
    assert run.folders == ["first", "first/again", None]
