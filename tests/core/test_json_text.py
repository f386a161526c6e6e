"""Indented JSON; the oracle is the encoder of the standard library, which indents slowly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptq.core.json_text import format_json, indent_json

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DOCUMENTS = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(DOCUMENTS)
def test_the_text_is_that_of_the_standard_library(document: Any) -> None:
    assert indent_json(document) == json.dumps(document, indent=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_are_null(value: float) -> None:
    assert json.loads(format_json({"a": [1, value]})) == {"a": [1, None]}
