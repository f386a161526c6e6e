"""A provider in a process of its own; what its library does to that process stays there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from networks import build_network, gaussian_array

from ptq.core.errors import DataError, ModelError
from ptq.executor.runtimes.hosted_model import HostedModel
from ptq.executor.runtimes.provider_model import ProviderModel
from ptq.model.graph import Graph
from ptq.model.session.provider_session import Provider

GRAPH = Graph.from_proto(
    build_network(
        "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nr = Relu(c)\ny = Flatten(r)",
        {"x": ("n", 3, "h", "w")},
        u=gaussian_array(8, 3, 3, 3),
    )
)
HERE = Provider("AzureExecutionProvider", "CPU")
"""Every build of ONNX Runtime has it; it leaves all nodes to the CPU."""
FEEDS = [{"x": gaussian_array(count, 3, side, side)} for count, side in ((1, 8), (2, 8), (1, 5))]


def test_the_process_gives_what_the_provider_gives_here() -> None:
    hosted, here = HostedModel(GRAPH, HERE, threads=1), ProviderModel(GRAPH, HERE, threads=1)
    assert (hosted.inputs, hosted.outputs) == (here.inputs, here.outputs)
    assert hosted.placement() == ()
    for feed in FEEDS:
        for outputs in (None, ["y"]):
            for found, wanted in zip(
                hosted.run(feed, outputs), here.run(feed, outputs), strict=True
            ):
                assert found.dtype == wanted.dtype
                np.testing.assert_array_equal(found, wanted)
    assert hosted.placement() == here.placement() != ()


def test_errors_of_the_provider_keep_their_kind_and_text() -> None:
    hosted = HostedModel(GRAPH, HERE)
    hosted.run(FEEDS[0])
    with pytest.raises(DataError, match=r"CPU cannot run the sample: .*Invalid"):
        hosted.run(FEEDS[0], ["nothing"])
    assert hosted.run(FEEDS[0])[0].shape == (1, 8 * 64)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os, sys; print('no room for a tensor', file=sys.stderr, flush=True); os.abort()", "no room"),
        ("raise SystemExit(3)", r"\(exit 3\): it printed nothing"),
    ],
)  # fmt: skip
def test_a_library_that_ends_its_process_is_one_error(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing_provider.py").write_text(f"def get_library_path():\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = HostedModel(GRAPH, Provider("Crashing", "HTP", "crashing_provider"))
    for _ in range(2):
        with pytest.raises(ModelError, match=f"HTP crashed on the model .*{said}"):
            model.run(FEEDS[0])


def test_the_process_ends_with_the_model() -> None:
    model = HostedModel(GRAPH, HERE)
    model.run(FEEDS[0])
    process: subprocess.Popen[bytes] | None = model._process
    assert process is not None
    assert process.poll() is None
    del model
    assert process.poll() == 0
