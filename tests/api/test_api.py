"""The verbs as a user calls them; what they promise in their docstrings is the oracle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, SAME, WB, V

import ptq
from ptq.core.errors import DataError, ModelError, PlanError, StatsError, UsageError
from ptq.core.targets import TARGETS
from ptq.executor.executor import Executor
from ptq.model.session.session import Session
from ptq.solver.recipe import REDUCED_NOTE, resolve_weight_format

MODEL = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\na = Add(d, r)\ng = GlobalAveragePool(a)\n"
    "f = Flatten(g)\ny = Gemm(f, m, k)",
    {"x": ("n", 3, 8, 8)},
    v=V,
    m=gaussian_array(8, 10),
    k=gaussian_array(10),
    **WB,
)
ARRAYS = {"x": np.concatenate([f["x"] for f in random_feeds(MODEL, 60)])}
FEW = {"x": ARRAYS["x"][:10]}


@pytest.fixture(scope="module")
def result() -> ptq.Result:
    """Without equalization, so that its statistics and its plan belong to the model itself."""
    return ptq.quantize(MODEL, ARRAYS, equalize=False, threads=1)


def test_quantize_gives_a_model_a_plan_and_a_report(result: ptq.Result) -> None:
    onnx.checker.check_model(result.model)
    assert set(result.plan.tensors) >= {"x", "r", "d", "a"}
    evaluation = result.report.evaluation
    assert evaluation is not None
    assert set(evaluation.forms) == {"float", "int8", "integers"}
    assert evaluation.forms["int8"].outputs["y"].sqnr_db > 20
    assert evaluation.forms["int8"].outputs == evaluation.forms["integers"].outputs
    json.loads(result.report.to_json())


def test_a_fifth_is_held_out_and_the_report_says_so(result: ptq.Result) -> None:
    evaluation = result.report.evaluation
    assert evaluation is not None
    assert result.report.calibration_samples + evaluation.samples == 60
    assert 6 <= evaluation.samples <= 20
    assert result.report.evaluated_on == "on samples held out from calibration"


def test_few_samples_serve_both_and_the_report_says_so() -> None:
    report = ptq.quantize(MODEL, FEW, threads=1).report
    assert report.evaluated_on == "on calibration samples"
    assert report.calibration_samples == 10
    separate = ptq.quantize(MODEL, FEW, eval_data=ARRAYS, threads=1).report
    assert separate.evaluated_on == "on 60 evaluation samples, 10 of them also calibration samples"
    assert separate.evaluation is not None
    assert separate.evaluation.samples == 60


def test_save_writes_what_the_model_is(result: ptq.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "small.onnx")
    assert onnx.load(tmp_path / "small.onnx") == result.model


@pytest.mark.parametrize("how", ["same", "symbolic", "hard", "weights"])
def test_save_never_writes_over_the_float_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "given").mkdir()
    given = tmp_path / "given" / "model.onnx"
    copy = onnx.ModelProto.FromString(MODEL.SerializeToString())
    onnx.save(copy, given, save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.chdir(given.parent)
    result = ptq.quantize("model.onnx", {"x": ARRAYS["x"][:8]}, threads=1)
    monkeypatch.chdir(tmp_path)
    place = {"same": given, "weights": given.parent / "w.bin"}.get(how, tmp_path / "link.onnx")
    if how == "symbolic":
        place.symlink_to(given)
    if how == "hard":
        place.hardlink_to(given)
    before = {file: file.read_bytes() for file in given.parent.iterdir()}
    with pytest.raises(UsageError, match=r"is the input .* itself; give another name"):
        result.save(place)
    assert {file: file.read_bytes() for file in given.parent.iterdir()} == before
    result.save(tmp_path / "out.onnx")
    result.save(tmp_path / "out.onnx")


def test_both_forms_are_the_same_function() -> None:
    settings = {"weights": "reduced", "threads": 1}
    one, other = (
        ptq.quantize(MODEL, ARRAYS, form=form, **settings) for form in ("qdq", "qoperator")
    )
    assert "QLinearConv" in {n.op_type for n in other.model.graph.node}
    assert one.report.evaluation == other.report.evaluation


@pytest.mark.parametrize("method", ["minmax", "percentile", "kl", "mse"])
def test_saved_statistics_do_not_run_the_model_again(
    result: ptq.Result, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.calibration.save(tmp_path / "stats.npz")
    direct = ptq.quantize(MODEL, ARRAYS, method=method, equalize=False, threads=1)

    def refuse(*args: Any, **more: Any) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr("ptq.model.session.exposed_session.Session", refuse)
    monkeypatch.setattr("ptq.calibration.calibration.observe", refuse)
    again = ptq.quantize(MODEL, stats=tmp_path / "stats.npz", method=method, threads=1)
    assert method in {why.detail for why in again.plan.why.values()}
    assert again.report.evaluation is None
    in_memory = ptq.quantize(MODEL, stats=result.calibration, method=method, threads=1)
    assert in_memory.plan.to_json() == again.plan.to_json()
    assert again.plan.to_json() == replace(direct.plan, rounding={}).to_json()


def test_statistics_of_some_shards_are_a_warning() -> None:
    parts = [ptq.calibrate(MODEL, ARRAYS, shard=(k, 3), threads=1) for k in range(3)]
    allowed = ptq.merge_statistics(parts[:2], allow_missing_shards=True)
    for stats, missing in (
        (parts[1], "shards 0/3, 2/3 of the samples are not counted; merge the statistics of all"),
        (allowed, "shard 2/3 of the samples is not counted; merge the statistics of all"),
        (ptq.merge_statistics(parts), ""),
    ):
        warnings = ptq.quantize(MODEL, stats=stats, threads=1).report.warnings
        found = [text for text in warnings if text.startswith("statistics: ")]
        assert len(found) == bool(missing)
        assert all(missing in text for text in found)


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_the_same_statistics_serve_every_target(result: ptq.Result, target: str) -> None:
    plan = ptq.quantize(MODEL, stats=result.calibration, target=target, threads=1).plan
    assert plan.target == target
    assert not plan.floats


def test_statistics_of_another_graph_are_refused(result: ptq.Result, tmp_path: Path) -> None:
    other = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
    result.calibration.save(tmp_path / "stats.npz")
    for stats in (result.calibration, tmp_path / "stats.npz"):
        with pytest.raises(StatsError, match="another graph"):
            ptq.quantize(other, stats=stats)


def test_a_plan_is_applied_down_to_its_biases(result: ptq.Result) -> None:
    wider = replace(result.plan.tensors["r"], scale=2 * result.plan.tensors["r"].scale)
    edited = replace(result.plan, tensors={**result.plan.tensors, "r": wider})
    edited = ptq.Plan.from_json(edited.to_json())
    again = ptq.quantize(MODEL, ARRAYS, plan=edited, threads=1)
    weight, bias = again.plan.operands["Conv_d", 1], again.plan.operands.get(("Conv_d", 2))
    assert again.plan.tensors["r"] == wider
    if bias is not None:
        assert np.array_equal(bias.scale, wider.scale * weight.scale)
    classifier = again.plan.operands["Gemm_y", 2]
    assert classifier == result.plan.operands["Gemm_y", 2]
    evaluation = again.report.evaluation
    assert evaluation is not None
    assert evaluation.forms["int8"].outputs == evaluation.forms["integers"].outputs
    assert evaluation.forms["int8"].outputs["y"].sqnr_db > 15


def test_options_that_a_plan_overrules_are_refused_or_named(result: ptq.Result) -> None:
    with pytest.raises(UsageError, match="the plan is for target ort, not litert; leave `target`"):
        ptq.quantize(MODEL, plan=result.plan, target="litert", threads=1)
    named = ptq.quantize(MODEL, plan=result.plan, method="kl", per_tensor=True, threads=1)
    ineffective = [c for c in named.report.changes if "has no effect" in c]
    assert [line.split(" has")[0] for line in ineffective] == ["method kl", "per_tensor"]
    plain = ptq.quantize(MODEL, plan=result.plan, threads=1)
    assert not [c for c in plain.report.changes if "has no effect" in c]
    assert named.report.method == plain.report.method


def test_a_number_of_samples_without_data_is_named(result: ptq.Result) -> None:
    given: dict[str, Any] = {"stats": result.calibration, "threads": 1}
    line = "samples 10 has no effect without data"
    assert line in ptq.quantize(MODEL, samples=10, **given).report.changes
    assert line not in ptq.quantize(MODEL, FEW, samples=10, **given).report.changes


def test_a_plan_s_own_target_rules(result: ptq.Result) -> None:
    plan = ptq.quantize(MODEL, stats=result.calibration, target="litert", threads=1).plan
    assert ptq.quantize(MODEL, plan=plan, threads=1).report.arithmetic == "litert"


def test_a_plan_of_another_graph_is_refused(result: ptq.Result) -> None:
    with pytest.raises(PlanError, match="another model"):
        ptq.quantize(build_network(CONV + "y = Relu(c)", **WB), plan=result.plan)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, UsageError, "no calibration data"),
        ({"data": FEW, "method": "magic"}, UsageError, "method 'magic' is unknown"),
        ({"data": FEW, "target": "abacus"}, UsageError, "target 'abacus' is unknown"),
        ({"data": FEW, "arithmetic": "abacus"}, UsageError, "arithmetic 'abacus' is unknown"),
        ({"data": FEW, "skip": ["Conv_z"]}, UsageError, "Conv_z"),
        ({"data": {"x": gaussian_array(4, 5, 8, 8)}}, DataError, "x"),
        ({"data": {"z": FEW["x"]}}, DataError, "x"),
        ({"data": "missing-folder"}, DataError, "missing-folder"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        ptq.quantize(MODEL, **options)
    assert "\n" not in str(caught.value)


def test_a_quantized_model_is_not_quantized_again(result: ptq.Result) -> None:
    with pytest.raises(ModelError, match="already quantized"):
        ptq.quantize(result.model, FEW)


def test_inspect_reports_the_precision_of_nodes_without_data(result: ptq.Result) -> None:
    nodes = {row.name: row for row in ptq.inspect(MODEL).nodes}
    assert nodes["Relu_r"].why == "may be folded into Conv_c"
    floats = {name for name, row in nodes.items() if row.fate == "float"}
    assert floats == set(result.plan.floats)
    skipped = {row.name: row for row in ptq.inspect(MODEL, skip=["Conv_d"]).nodes}
    assert skipped["Conv_d"].fate == "float"


def test_evaluate_lays_a_model_beside_the_float_one(result: ptq.Result) -> None:
    for engine, form in (("ort", "int8"), ("integer", "integers")):
        made = ptq.evaluate(result.model, FEW, against=MODEL, engine=engine, threads=1)  # type: ignore[arg-type]
        assert made.samples == 10
        assert made.forms[form].outputs["y"].sqnr_db > 15


def test_verify_finds_a_quantized_model_equal(result: ptq.Result) -> None:
    made = ptq.verify(result.model, FEW, threads=1)
    assert made.intact
    assert made.samples == 10
    assert made.equal


def test_the_given_model_stays_as_it_is(result: ptq.Result) -> None:
    before = MODEL.SerializeToString(deterministic=True)
    ptq.quantize(MODEL, FEW, threads=1)
    assert MODEL.SerializeToString(deterministic=True) == before


def test_progress_covers_every_stage() -> None:
    told: list[tuple[str, int | None]] = []
    steps = []

    def progress(stage: str, total: int | None) -> Any:
        told.append((stage, total))
        return lambda: steps.append(stage)

    ptq.quantize(MODEL, FEW, threads=1, progress=progress)
    assert told == [
        ("calibrating", 10),
        ("choosing ranges", None),
        ("rounding", 10),
        ("checking", None),
        ("evaluating", 10),
    ]
    assert (steps.count("calibrating"), steps.count("evaluating")) == (10, 10)
    assert steps.count("checking") == 1


def test_progress_covers_the_check_of_a_plan(result: ptq.Result) -> None:
    told = []

    def progress(stage: str, total: int | None) -> Any:
        told.append(stage)
        return lambda: told.append(f"{stage}, a step")

    ptq.quantize(MODEL, FEW, plan=result.plan, threads=1, progress=progress)
    assert told.index("checking, a step") == told.index("checking") + 1


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_weights_stored_as_uint8_give_the_same_integers(result: ptq.Result, form: str) -> None:
    settings = {"stats": result.calibration, "form": form, "threads": 1}
    signed, unsigned = (ptq.quantize(MODEL, weights=w, **settings) for w in ("s8", "u8"))
    assert replace(unsigned.plan, weights=None).to_json() == signed.plan.to_json()
    assert signed.report.saturable
    assert unsigned.report.saturable == ()
    stored = {t.data_type for t in unsigned.model.graph.initializer if t.name.startswith("w_")}
    assert onnx.TensorProto.INT8 not in stored
    sessions = [Session(r.graph, threads=1) for r in (signed, unsigned)]
    for feed in random_feeds(MODEL, 3):
        expected = sessions[0].run(feed)[0]
        assert np.array_equal(sessions[1].run(feed)[0], expected)
        ours = [
            Executor(r.graph).run(feed, ["x_quantized", "r_quantized"]) for r in (signed, unsigned)
        ]
        assert all(np.array_equal(ours[0][name], ours[1][name]) for name in ours[0])
        assert np.array_equal(ours[1]["y"], expected)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_reduced_weights_give_the_same_integers_on_all_processors(
    result: ptq.Result, form: str
) -> None:
    settings = {"form": form, "eval_data": random_feeds(MODEL, 40), "threads": 1}
    plain, reduced = (ptq.quantize(MODEL, FEW, weights=w, **settings) for w in ("s8", "reduced"))
    assert plain.report.saturable
    assert reduced.report.saturable == ()
    assert REDUCED_NOTE in reduced.report.changes
    forms = [made.report.evaluation.forms["int8"] for made in (plain, reduced)]
    first, second = (form.outputs["y"].sqnr_db for form in forms)
    assert second > first - 3
    for feed in random_feeds(MODEL, 3):
        expected = Session(reduced.graph, threads=1).run(feed)[0]
        for arithmetic in ("ort", "ort-avx2"):
            ours = Executor(reduced.graph, arithmetic).run(feed)["y"]
            assert np.array_equal(ours, expected)


@pytest.mark.parametrize(
    ("exact", "target", "stored"),
    [
        (True, "ort", "s8"),
        (False, "ort", "reduced"),
        (False, "openvino", "reduced"),
        (False, "litert", "s8"),
        (False, "tensorrt", "s8"),
        (False, "gemmlowp", "s8"),
    ],
)
def test_how_weights_are_stored_depends_on_the_processor_where_it_is_left_to_ptq(
    monkeypatch: pytest.MonkeyPatch, exact: bool, target: str, stored: str
) -> None:
    monkeypatch.setattr("ptq.solver.recipe.has_exact_int8_sums", lambda: exact)
    changes = ptq.quantize(MODEL, FEW, target=target, threads=1).report.changes
    assert (REDUCED_NOTE in changes) == (stored == "reduced")
    assert resolve_weight_format("auto", TARGETS[target], None) == stored
    assert resolve_weight_format("s8", TARGETS[target], None) == "s8"


def test_weights_are_reduced_where_onnx_runtime_cannot_add_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("has_exact_int8_sums", "can_add_exactly"):
        monkeypatch.setattr(f"ptq.solver.recipe.{name}", lambda: False)
    found = [resolve_weight_format("auto", TARGETS[name], None) for name in ("litert", "gemmlowp")]
    assert found == ["reduced", "s8"]


def test_reduced_weights_are_int8() -> None:
    with pytest.raises(UsageError, match="reduced are int8, but target gemmlowp has uint8"):
        ptq.quantize(MODEL, FEW, target="gemmlowp", weights="reduced")


def test_a_plan_keeps_its_scales_of_weights_on_all_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reduced = ptq.quantize(MODEL, FEW, weights="reduced", threads=1)
    monkeypatch.setattr("ptq.solver.recipe.has_exact_int8_sums", lambda: False)
    again = ptq.quantize(MODEL, FEW, plan=reduced.plan, threads=1)
    assert again.graph.digest() == reduced.graph.digest()
    plain = ptq.quantize(MODEL, FEW, weights="s8", threads=1)
    obeyed = ptq.quantize(MODEL, FEW, plan=plain.plan, threads=1)
    assert obeyed.graph.digest() == plain.graph.digest()
    with pytest.raises(UsageError, match="a plan sets the scales of weights"):
        ptq.quantize(MODEL, FEW, plan=plain.plan, weights="reduced")


def test_a_plan_gives_uint8_weights_again() -> None:
    def types(made: ptq.Result) -> set[int]:
        stored = made.graph.to_proto().graph.initializer
        return {array.data_type for array in stored if len(array.dims) > 1}

    unsigned = ptq.quantize(MODEL, FEW, weights="u8", threads=1)
    assert types(unsigned) == {onnx.TensorProto.UINT8}
    saved = ptq.Plan.from_json(unsigned.plan.to_json())
    again = ptq.quantize(MODEL, FEW, plan=saved, threads=1)
    assert types(again) == {onnx.TensorProto.UINT8}
    assert again.plan.to_json() == unsigned.plan.to_json()
    signed = ptq.quantize(MODEL, FEW, plan=saved, weights="s8", threads=1)
    assert types(signed) == {onnx.TensorProto.INT8}
    assert signed.plan.weights is None


def test_uint8_weights_are_for_onnx_runtime_alone(result: ptq.Result) -> None:
    with pytest.raises(UsageError, match="u8 need target ort, not litert"):
        ptq.quantize(MODEL, stats=result.calibration, target="litert", weights="u8")
