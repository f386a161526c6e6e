"""The facts of a run on its page; no part of a URL that may be secret stands there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptq_cli.page import write_page

from ptq.page.page import RunFact


def test_no_fact_holds_the_password_or_the_signature_of_a_url(tmp_path: Path) -> None:
    facts: list[RunFact] = []

    def render(found: Sequence[RunFact]) -> str:
        facts.extend(found)
        return ""

    following = "ptq verify m.onnx --data 'http://user:PASSWORD@127.0.0.1:1/x.npz?sig=SIGNATURE'"
    write_page(tmp_path / "page.html", render, following=following)
    text = " ".join(value for _, value in facts)
    assert "ptq verify m.onnx --data 'http://127.0.0.1:1/x.npz" in text
    assert "PASSWORD" not in text
    assert "SIGNATURE" not in text
