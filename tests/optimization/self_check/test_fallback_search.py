"""Which nodes go back to float; faults that are put in on purpose, and ONNX Runtime's outputs, are the oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import numpy as np
import onnx
import pytest
from networks import (
    build_network,
    gaussian_array,
    prepare_and_calibrate,
    random_feeds,
    sqnr_db,
    to_samples,
)

from ptq.core.errors import ModelError
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.session.session import Session
from ptq.optimization.mixed_precision.attribution.error_attribution import SAMPLES
from ptq.optimization.self_check import checks, fallback_search, self_check
from ptq.optimization.self_check.self_check import quantize_with_self_check
from ptq.solver import quantizer
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, apply_plan
from ptq.solver.recipe import Recipe

DEPTH = 12
LAYERS = [f"Gemm_c{k}" for k in range(DEPTH)]
Written = Callable[[CalibratedModel, Recipe, Plan], QuantizedModel]


def deep() -> onnx.ModelProto:
    """A chain of layers, each a turn of the space and no more."""
    nodes = "\n".join(f"c{k} = Gemm({f'c{k - 1}' if k else 'x'}, w{k})" for k in range(DEPTH))
    weights = {f"w{k}": np.linalg.qr(gaussian_array(16, 16, seed=k))[0] for k in range(DEPTH)}
    return build_network(nodes, {"x": (32, 16)}, (f"c{DEPTH - 1}", "c5"), **weights)


MODEL = deep()
FEEDS = random_feeds(MODEL, 8)
PLAIN = Recipe()


@pytest.fixture(scope="module")
def ground() -> CalibratedModel:
    return prepare_and_calibrate(MODEL, FEEDS)


class Counting:
    """Writes a quantization, spoilt, and counts how often."""

    def __init__(self, spoil: Written) -> None:
        self.count, self.spoil = 0, spoil

    def __call__(self, ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        self.count += 1
        return self.spoil(ground, recipe, plan)


def coarse(**by: float) -> Written:
    """Tensors in steps so many times as wide; all others where "rest" says so."""

    def spoilt(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        wider = {
            name: dataclasses.replace(
                params, scale=params.scale * np.float32(by.get(name, by.get("rest", 1.0)))
            )
            for name, params in plan.tensors.items()
        }
        return apply_plan(ground, recipe, dataclasses.replace(plan, tensors=wider))

    return spoilt


def wrong(nodes: Collection[str], *, hard: bool) -> Written:
    """An output of another name, or twice what it should be, while any of the nodes is in integers."""

    def spoilt(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        made = apply_plan(ground, recipe, plan)
        if set(nodes) <= set(plan.floats):
            return made
        graph = made.quantized_graph.copy()
        output = graph.outputs[0]
        if hard:
            output.name = "other"
        else:
            two = graph.add_constant(np.float32(2), "two")
            last = output.producer()
            assert last is not None
            twice = graph.insert("Mul", [output, two], after=last, output="twice")
            twice.type, twice.shape = output.type, output.shape
            graph.replace_output(output, twice)
        return dataclasses.replace(made, quantized_graph=graph)

    return spoilt


Handed = Callable[..., tuple[QuantizedModel, int]]


@pytest.fixture
def handed(ground: CalibratedModel, monkeypatch: pytest.MonkeyPatch) -> Handed:
    monkeypatch.setattr(checks, "SHALLOW_NODES", 0)

    def hand(spoil: Written, recipe: Recipe = PLAIN) -> tuple[QuantizedModel, int]:
        counting = Counting(spoil)
        monkeypatch.setattr(quantizer, "apply_plan", counting)
        made = quantize_with_self_check(
            ground, recipe, to_samples(FEEDS), sessions=SessionCache(RunOptions(threads=1))
        )
        return made, counting.count

    return hand


def test_progress_covers_every_checked_model_and_every_round_of_error_attribution(
    ground: CalibratedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SHALLOW_NODES", 0)
    counting, told, steps = Counting(coarse(c3=64.0)), [], []
    monkeypatch.setattr(quantizer, "apply_plan", counting)

    def progress(stage: str, total: int | None) -> Callable[[], None]:
        told.append((stage, total))
        return lambda: steps.append(stage)

    quantize_with_self_check(
        ground,
        PLAIN,
        to_samples(FEEDS),
        sessions=SessionCache(RunOptions(threads=1, progress=progress)),
    )
    assert told == [("checking", None)]
    assert len(steps) >= counting.count + SAMPLES


def reached(quantized: QuantizedModel) -> list[float]:
    """Decibels of both outputs over all samples."""
    before, after = (
        Session(quantized.calibrated_model.source, threads=1),
        Session(quantized.quantized_graph, threads=1),
    )
    truth, got = ([s.run(feed) for feed in FEEDS] for s in (before, after))
    return [sqnr_db(np.stack([t[k] for t in truth]), np.stack([g[k] for g in got])) for k in (0, 1)]


def test_of_errors_that_add_up_so_many_go_as_bring_all_outputs_near_enough(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil = coarse(rest=20.0)
    monkeypatch.setattr(checks, "MIN_SQNR_DEEP_DB", 0.0)
    all_of_them, _ = handed(spoil)
    assert all_of_them.plan.floats == {}
    assert 4 < min(reached(all_of_them)) < 6
    monkeypatch.setattr(checks, "MIN_SQNR_DEEP_DB", 7.0)
    made, count = handed(spoil)
    assert 7 <= min(reached(made)) < 10
    assert 2 <= len(made.plan.floats) <= 8
    assert count < DEPTH
    assert "(7 dB required)" in made.changes[-1]
    assert made.changes[-1].endswith(f"; now ≥ {min(reached(made)):.1f} dB")


def test_the_one_tensor_at_fault_is_found_in_a_few_quantizations(handed: Handed) -> None:
    made, count = handed(coarse(c3=64.0))
    assert set(made.plan.floats) == {"Gemm_c3", "Gemm_c4"}
    assert min(reached(made)) > 20
    assert count <= 2 + fallback_search.REMOVALS_TRIED
    why = made.plan.floats["Gemm_c3"]
    assert why.startswith("self-check: output c5 has SQNR ")
    assert "; 2 of 12 nodes kept in float; now ≥ " in made.changes[-1]


@pytest.mark.parametrize("recipe", [Recipe(form="qoperator", weights="u8"), Recipe("litert")])
def test_it_is_found_in_every_form_and_for_other_targets(handed: Handed, recipe: Recipe) -> None:
    made, _ = handed(coarse(c3=64.0), recipe)
    assert set(made.plan.floats) == {"Gemm_c3", "Gemm_c4"}


def test_two_at_fault_for_two_outputs_are_both_found(handed: Handed) -> None:
    made, _ = handed(coarse(c2=64.0, c8=64.0))
    assert set(made.plan.floats) == {"Gemm_c2", "Gemm_c3", "Gemm_c8", "Gemm_c9"}


def test_what_rounding_does_not_explain_is_found_by_halves(handed: Handed) -> None:
    made, _ = handed(wrong(["Gemm_c6"], hard=False))
    assert set(made.plan.floats) == {"Gemm_c6"}


def test_a_hard_fault_is_found_by_halves(handed: Handed) -> None:
    made, count = handed(wrong(["Gemm_c6"], hard=True))
    assert set(made.plan.floats) == {"Gemm_c6"}
    assert count <= 2 + np.ceil(np.log2(DEPTH))
    assert "inputs or outputs differ from the float model's" in made.changes[-1]


def test_too_many_failing_nodes_make_one_end_of_the_network_float(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "MAX_FAILING_NODES", 1)
    made, _ = handed(wrong(LAYERS[:5], hard=True))
    assert set(made.plan.floats) == set(LAYERS[:5])
    made, _ = handed(wrong(LAYERS[8:], hard=True))
    assert set(made.plan.floats) == set(LAYERS[8:])


def test_bisection_searches_a_model_whose_error_cannot_be_attributed(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ModelError("too large")

    monkeypatch.setattr(fallback_search, "attribute_error", refused)
    made, _ = handed(coarse(c3=64.0))
    assert {"Gemm_c3", "Gemm_c4"} & set(made.plan.floats)
    assert min(reached(made)) > 10


def test_error_attribution_that_finds_too_little_is_not_repeated_for_ever(
    handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fallback_search, "find_cheapest_cover", lambda *_: [frozenset(["Gemm_c10"])]
    )
    made, _ = handed(coarse(c3=64.0))
    assert "Gemm_c10" not in made.plan.floats
    assert min(reached(made)) > 10
