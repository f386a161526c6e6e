"""Oracle: ONNX Runtime's own refusals, and what they leave unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import exact_sums
import numpy as np
import onnxruntime
import pytest
from networks import build_network

from ptq.core.errors import ModelError, shorten_message
from ptq.model.graph import Graph
from ptq.model.session import session
from ptq.model.session.exact_sums import has_exact_int8_sums
from ptq.model.session.session import Session
from ptq.model.session.session_tuning import DEFAULT_TUNING, SessionTuning, make_session_options


def test_a_model_that_does_not_load_is_refused_with_the_node_that_runtime_leaves_unnamed() -> None:
    model = build_network(
        """
        a = Relu(x)
        y, last = GRU<hidden_size = 2, layout = 1>(a, w, r)
        """,
        {"x": (1, 3, 4)},
        opset=17,
        w=np.zeros((1, 6, 4), np.float32),
        r=np.zeros((1, 6, 2), np.float32),
    )
    with pytest.raises(ModelError, match=r"node GRU_y \(GRU\): .*Batchwise recurrent operations"):
        Session(Graph.from_proto(model))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : /onnxruntime_src/onnxruntime/core/graph/model.cc:256 "
            "onnxruntime::Model::Model(onnx::ModelProto&&, const onnxruntime::ModelOptions&) "
            "Unsupported model IR version: 14",
            "Unsupported model IR version: 14",
        ),
        (
            "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for X(3)",
            "Could not find an implementation for X(3)",
        ),
        ("\n\nthe first line\nthe second", "the first line"),
        ("400, message:\n  Not enough data\nmore", "400, message: Not enough data"),
        ("", "RuntimeError"),
    ],
)
def test_codes_and_source_files_are_taken_off_a_message(text: str, kept: str) -> None:
    assert shorten_message(RuntimeError(text)) == kept


def test_no_outputs_are_none_and_not_all() -> None:
    session = Session(Graph.from_proto(build_network("y = Relu(x)", {"x": (2, 3)})))
    assert session.run({"x": np.zeros((2, 3), np.float32)}, []) == []


def _between_quantizers() -> Graph:
    """A convolution with float weights between two quantizers, the first's scale an input."""
    model = build_network(
        """
        xq = QuantizeLinear(x, s, z)
        xr = DequantizeLinear(xq, s, z)
        c = Conv(xr, w, b)
        cq = QuantizeLinear(c, t, z)
        y = DequantizeLinear(cq, t, z)
        """,
        {"x": (1, 3, 6, 6), "s": ()},
        w=np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32),
        b=np.random.default_rng(1).normal(size=4).astype(np.float32),
        z=np.array(128, np.uint8),
        t=np.array(2.0**-3, np.float32),
    )
    return Graph.from_proto(model)


def test_without_integers_scales_may_be_inputs_and_weights_are_not_rounded() -> None:
    graph = _between_quantizers()
    as_it_stands = Session(graph, optimize="none")
    optimized = Session.for_range_search(graph)
    x = np.random.default_rng(2).normal(size=(1, 3, 6, 6)).astype(np.float32)
    outputs = []
    for scale in (2.0**-6, 2.0**-1):
        feed = {"x": x, "s": np.array(scale, np.float32)}
        (expected,), (got,) = as_it_stands.run(feed), optimized.run(feed)
        assert np.mean(got != expected) < 0.05  # sums beside a tie may fall otherwise
        outputs.append(got)
    assert not np.array_equal(*outputs)


def test_whether_products_are_added_exactly_is_what_the_processor_says() -> None:
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        pytest.skip("nobody tells what the processor has")
    if "avx2" not in words:
        pytest.skip("no x86 processor of this age")
    assert bool(words & {"avx512_vnni", "avx_vnni", "avxvnni"}) == exact_sums.EXACT_NATIVELY
    assert has_exact_int8_sums()  # in tests everywhere


NEWEST, OLDER = (1, 32), (1, 31)


@pytest.mark.parametrize(
    ("target", "version", "exact"),
    [
        ("tensorrt", NEWEST, True),
        ("tensorrt", OLDER, False),
        ("ort", NEWEST, False),
        ("", NEWEST, False),
    ],
)
def test_where_this_processor_saturates_and_the_target_does_not_sums_are_exact(
    monkeypatch: pytest.MonkeyPatch, target: str, version: tuple[int, int], exact: bool
) -> None:
    monkeypatch.setattr("ptq.model.session.exact_sums.has_exact_int8_sums", lambda: False)
    monkeypatch.setattr("ptq.model.session.exact_sums.INSTALLED", version)
    graph = Graph.from_proto(build_network("y = Relu(x)", {"x": (1, 4)}))
    graph.target = target
    opened = Session(graph.copy(), threads=1)
    assert opened.computes_as_written == exact
    timed = Session.for_timing(graph, threads=1, opened=opened)
    assert (timed is opened) == (not exact)


def test_a_model_that_loads_without_exact_sums_only_is_loaded_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is with QGemm of int8 activations in QOperator form, whose products are added exactly anyway."""
    make_options, open_session, asked = make_session_options, session._open_session, []

    def record_options(tuning: SessionTuning, **options: Any) -> onnxruntime.SessionOptions:
        asked.append(options["adds_exactly"])
        return make_options(tuning, **options | {"adds_exactly": False})

    def open_inexact(*arguments: Any) -> Any:
        if asked[-1]:
            raise RuntimeError("Failed to find kernel")
        return open_session(*arguments)

    monkeypatch.setattr(session, "needs_exact_sums", lambda graph: True)
    monkeypatch.setattr(session, "make_session_options", record_options)
    monkeypatch.setattr(session, "_open_session", open_inexact)
    opened = Session(Graph.from_proto(build_network("y = Relu(x)", {"x": (1, 4)})), threads=1)
    assert asked == [True, False]
    assert not opened.computes_as_written


def test_exact_sums_are_an_option_of_the_session() -> None:
    options = make_session_options(
        DEFAULT_TUNING, threads=1, optimize="all", keeps_16_bits=False, adds_exactly=True
    )
    assert options.get_session_config_entry("session.x64quantprecision") == "1"
