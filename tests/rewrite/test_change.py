"""What rewrites report, as data and as sentences."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ptq.rewrite import change as change_module
from ptq.rewrite.change import Change, describe_change
from ptq.rewrite.imported.normalize_qdq import NORMALIZE_QDQ
from ptq.rewrite.prepare.prepare import PREPARE

REWRITE = Path(change_module.__file__).parent


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Change("fold_constants", 4), "evaluated 4 constant nodes"),
        (Change("upgrade_opset", old="11", new="17"), "raised the opset from 11 to 17"),
        (
            Change("fuse_batchnorm", 25, "BatchNormalization", "convolutions"),
            "folded 25 BatchNormalization nodes into convolutions",
        ),
        (
            Change("fuse_softmax", 2, new="Softmax", declined="the opset is 11"),
            "fuse softmax: not applied to 2 Softmax nodes: the opset is 11",
        ),
    ],
)
def test_a_change_reads_as_a_sentence(change, sentence):
    assert describe_change(change) == sentence


def _kinds_in_source() -> set[str]:
    """The kinds that the modules of the package write as literals."""
    found = set()
    for path in REWRITE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Change":
                first = node.args[0]
                found |= {first.value} if isinstance(first, ast.Constant) else set()
    return found


def test_every_kind_has_a_sentence():
    kinds = _kinds_in_source()
    assert len(kinds) > 20
    for kind in kinds:
        assert describe_change(Change(kind, old="Old", new="New"))


@pytest.mark.parametrize("rewrites", [PREPARE, NORMALIZE_QDQ], ids=["PREPARE", "NORMALIZE_QDQ"])
def test_a_rewrite_without_work_reports_nothing_and_keeps_the_graph(rewrites, parsed):
    graph = parsed("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }").with_shapes()
    digest = graph.digest()
    for rewrite in rewrites:
        assert rewrite(graph) == []
    assert graph.digest() == digest
