"""Networks in which values decide how long an output is; ONNX Runtime's outputs are the oracle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from networks import (
    build_network,
    gaussian_array,
    prepare_and_calibrate,
    random_feeds,
    sqnr_db,
    to_samples,
)

from ptq.api.quantize import quantize
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.model.session.session import Session
from ptq.optimization.self_check.boundary_error import find_integer_to_float_tensors
from ptq.optimization.self_check.self_check import quantize_with_self_check
from ptq.solver import quantizer
from ptq.solver.quantizer import CalibratedModel, QuantizedModel, apply_plan
from ptq.solver.recipe import Recipe

DEPTH = 6
CHAIN = "\n".join(f"c{k} = Gemm({f'c{k - 1}' if k else 'x'}, w{k})" for k in range(DEPTH))
MODEL = build_network(
    CHAIN
    + "\nf = Flatten<axis = 0>(c5)\nq = Squeeze(f, first)\nm = Greater(q, half)\ny = Compress(q, m)",
    {"x": (64, 16)},
    half=np.float32(0.5),
    first=[0],
    **{f"w{k}": np.linalg.qr(gaussian_array(16, 16, seed=k))[0] for k in range(DEPTH)},
)
FEEDS = random_feeds(MODEL, 8)


@pytest.fixture(scope="module")
def ground() -> CalibratedModel:
    return prepare_and_calibrate(MODEL, FEEDS)


def handed(ground: CalibratedModel) -> QuantizedModel:
    return quantize_with_self_check(
        ground, Recipe(), to_samples(FEEDS), sessions=SessionCache(RunOptions(threads=1))
    )


def lengths(quantized: QuantizedModel) -> list[tuple[int, int]]:
    sessions = [
        Session(g, threads=1)
        for g in (quantized.calibrated_model.source, quantized.quantized_graph)
    ]
    return [tuple(len(s.run(feed)[0]) for s in sessions) for feed in FEEDS]


def test_a_length_that_rounding_changes_leaves_nothing_float(ground: CalibratedModel) -> None:
    made = handed(ground)
    assert any(one != other for one, other in lengths(made))
    assert not {f"Gemm_c{k}" for k in range(DEPTH)} & set(made.plan.floats)


def test_the_edges_are_what_integers_hand_to_floats(ground: CalibratedModel) -> None:
    made = handed(ground)
    between = find_integer_to_float_tensors(made)
    assert list(between) == ["c5"]
    before = Session(with_extra_outputs(ground.prepared.graph, list(between)), threads=1)
    after = Session(with_extra_outputs(made.quantized_graph, list(between.values())), threads=1)
    for feed in FEEDS:
        (real,), (rounded,) = before.run(feed, ["c5"]), after.run(feed, list(between.values()))
        assert 20 < sqnr_db(real, rounded) < 60


def test_what_makes_the_edges_too_far_is_found(
    ground: CalibratedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(ground: CalibratedModel, recipe: Recipe, plan: Plan) -> QuantizedModel:
        tensors = {
            name: dataclasses.replace(p, scale=p.scale * np.float32(64)) if name == "c2" else p
            for name, p in plan.tensors.items()
        }
        return apply_plan(ground, recipe, dataclasses.replace(plan, tensors=tensors))

    monkeypatch.setattr(quantizer, "apply_plan", coarse)
    made = handed(ground)
    found = {name: why for name, why in made.plan.floats.items() if "self-check" in why}
    assert set(found) == {"Gemm_c2", "Gemm_c3"}
    assert "int8/float boundary tensor c5 has SQNR " in found["Gemm_c2"]
    assert "; now ≥ " in made.changes[-1]


def test_a_plan_is_applied_though_rounding_changes_a_length() -> None:
    made = quantize(MODEL, FEEDS, threads=1)
    again = quantize(MODEL, FEEDS, plan=made.plan, threads=1)
    assert again.plan.tensors == made.plan.tensors
    assert not [s for s in again.report.suspects if s.where == "the given plan"]
