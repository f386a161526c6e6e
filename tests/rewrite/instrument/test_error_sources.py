"""A quantized model taken probe; ONNX Runtime, on the float and the quantized model, is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import Array, build_network, quantize_network, random_feeds
from parts import CONV, SAME, WB, V

from ptq.model.session.session import Session
from ptq.rewrite.instrument.error_sources import ErrorProbe, build_error_probe

BODY = CONV + f"r = Relu(c)\nm = MaxPool<kernel_shape=[2,2]>(r)\ny = Conv{SAME}(m, v)"


@pytest.fixture(scope="module")
def done():  # type: ignore[no-untyped-def]
    return quantize_network(build_network(BODY, v=V, **WB))


@pytest.fixture(scope="module")
def probe(done) -> ErrorProbe:  # type: ignore[no-untyped-def]
    return build_error_probe(done.prepared, done.plan, done.qdq)


def _run(probe: ErrorProbe, feed: dict[str, Array], factor: float) -> Array:
    added = Session(probe.error_graph, threads=1).run(feed, probe.error_outputs)
    sums: dict[str, Array] = {}
    for source, error in zip(probe.sources, added, strict=True):
        name = probe.inputs[source.tensor]
        sums[name] = sums.get(name, np.zeros_like(error)) + np.float32(factor) * error
    return Session(probe.injected, threads=1).run({**feed, **sums})[0]


def test_without_errors_it_is_the_float_model(done, probe: ErrorProbe) -> None:  # type: ignore[no-untyped-def]
    for feed in random_feeds(done.model)[:2]:
        real = Session(done.prepared, threads=1).run(feed)[0]
        assert np.allclose(_run(probe, feed, 0.0), real, atol=1e-5)


def test_with_all_errors_it_is_as_far_from_float_as_the_quantized_model(
    done, probe: ErrorProbe
) -> None:  # type: ignore[no-untyped-def]
    seen, expected = [], []
    for feed in random_feeds(done.model):
        real = Session(done.prepared, threads=1).run(feed)[0]
        seen.append(_run(probe, feed, 1.0) - real)
        expected.append(Session(done.qdq, threads=1).run(feed)[0] - real)
    energy, truth = (float(np.square(np.concatenate(e)).sum()) for e in (seen, expected))
    assert energy == pytest.approx(truth, rel=0.25)
    overlap = float((np.concatenate(seen) * np.concatenate(expected)).sum())
    assert overlap > 0.5 * truth


def test_every_rounding_is_a_source_and_what_is_only_moved_is_none(probe: ErrorProbe) -> None:
    found = {(source.kind, source.tensor) for source in probe.sources}
    assert found == {
        ("weights", "c"),
        ("weights", "y"),
        ("tensor", "x"),
        ("tensor", "r"),
        ("tensor", "y"),
    }


def test_a_rounding_vanishes_with_all_that_touches_it(probe: ErrorProbe) -> None:
    touching = {(s.kind, s.tensor): s.float_nodes_needed for s in probe.sources}
    names = set().union(*touching.values())
    assert len(names) == 4
    assert touching["weights", "c"] == touching["tensor", "x"]  # the convolution and its activation
    assert touching["tensor", "r"] == names  # through the pooling, to the second convolution
    assert len(touching["weights", "c"]) == 2
    assert len(touching["tensor", "y"]) == 1


def test_a_nearest_resize_rounds_nothing_and_a_linear_one_does():
    resize = CONV + 'r = Relu(c)\nm = Resize<mode = "{}">(r, , s)\ny = Conv' + SAME + "(m, v)"
    scales = np.array([1, 1, 2, 2], np.float32)
    for mode, rounded in (("nearest", {"x", "r", "y"}), ("linear", {"x", "r", "m", "y"})):
        done = quantize_network(build_network(resize.format(mode), v=V, s=scales, **WB))
        found = build_error_probe(done.prepared, done.plan, done.qdq)
        assert {s.tensor for s in found.sources if s.kind == "tensor"} == rounded
