"""Networks in which values decide how long an output is; ONNX Runtime's outputs are the oracle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from networks import decibels, feeds, ground_of, network, normal, samples

from ptq.api import quantize
from ptq.core.plan import Plan
from ptq.evaluation.session_cache import Loaded
from ptq.model.session import Session
from ptq.optimization.self_check import checks
from ptq.optimization.self_check.boundary_error import edges, putting_out
from ptq.optimization.self_check.self_check import fit_to_hand_over
from ptq.solver.quantizer import Ground, Quantization, written
from ptq.solver.recipe import Recipe

DEPTH = 6
CHAIN = "\n".join(f"c{k} = Gemm({f'c{k - 1}' if k else 'x'}, w{k})" for k in range(DEPTH))
MODEL = network(
    CHAIN
    + "\nf = Flatten<axis = 0>(c5)\nq = Squeeze(f, first)\nm = Greater(q, half)\ny = Compress(q, m)",
    {"x": (64, 16)},
    half=np.float32(0.5),
    first=[0],
    **{f"w{k}": np.linalg.qr(normal(16, 16, seed=k))[0] for k in range(DEPTH)},
)
FEEDS = feeds(MODEL, 8)


@pytest.fixture(scope="module")
def ground() -> Ground:
    return ground_of(MODEL, FEEDS)


def handed(ground: Ground) -> Quantization:
    return fit_to_hand_over(ground, Recipe(), samples(FEEDS), loaded=Loaded(1))


def lengths(made: Quantization) -> list[tuple[int, int]]:
    sessions = [Session(g, threads=1) for g in (made.ground.source, made.quantized)]
    return [tuple(len(s.run(feed)[0]) for s in sessions) for feed in FEEDS]


def test_a_length_that_rounding_changes_leaves_nothing_float(ground: Ground) -> None:
    made = handed(ground)
    assert any(one != other for one, other in lengths(made))
    assert not {f"Gemm_c{k}" for k in range(DEPTH)} & set(made.plan.floats)


def test_the_edges_are_what_integers_hand_to_floats(ground: Ground) -> None:
    made = handed(ground)
    between = edges(made)
    assert list(between) == ["c5"]
    before = Session(putting_out(ground.prepared.graph, list(between)), threads=1)
    after = Session(putting_out(made.quantized, list(between.values())), threads=1)
    for feed in FEEDS:
        (real,), (rounded,) = before.run(feed, ["c5"]), after.run(feed, list(between.values()))
        assert 20 < decibels(real, rounded) < 60


def test_what_makes_the_edges_too_far_is_found(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def coarse(ground: Ground, recipe: Recipe, plan: Plan) -> Quantization:
        tensors = {
            name: dataclasses.replace(p, scale=p.scale * np.float32(64)) if name == "c2" else p
            for name, p in plan.tensors.items()
        }
        return written(ground, recipe, dataclasses.replace(plan, tensors=tensors))

    monkeypatch.setattr(checks, "written", coarse)
    made = handed(ground)
    found = {name: why for name, why in made.plan.floats.items() if "self-check" in why}
    assert set(found) == {"Gemm_c2", "Gemm_c3"}
    assert "where integers end, c5 is too far from float (" in found["Gemm_c2"]
    assert "; now all that they hand on has " in made.changes[-1]


def test_a_plan_is_obeyed_though_rounding_changes_a_length() -> None:
    made = quantize(MODEL, FEEDS, threads=1)
    again = quantize(MODEL, FEEDS, plan=made.plan, threads=1)
    assert again.plan.tensors == made.plan.tensors
    assert not [s for s in again.report.suspects if s.where == "the plan given"]
