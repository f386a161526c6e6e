"""The names and words of the project: the field's own, and none that only its authors understand.

The oracle is the source itself: the syntax tree for names, the text for words. Of a test, its names and docstrings
count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted([*(ROOT / "ptq").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXTS = [
    *SOURCES,
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.py")),
    *sorted((ROOT / "fuzz").glob("*.py")),
    ROOT / "README.md",
    ROOT / "SECURITY.md",
]

RETIRED = {
    "told": "reported",
    "begun": "started",
    "deadly": "crashes the process",
    "tolls?": "time cost",
    "shores?": "int/float boundary",
    "weighed": "attributed",
    "weighing": "error attribution",
    "culprits?": "first failing node",
    "blam(e|es|ed|ing)": "explain the failure",
    "(made|make|makes|making) alike": "equalized",
    "made the channels [a-z ]*alike": "equalized",
    "unequal": "not equalized",
    "hand(s|ed|ing)? (over|out)": "return, write",
    "put(s|ting)? out": "write",
    "g(i|a)v(e|es|en) back": "release, return",
    "truths?": "reference",
    "twins?": "duplicate",
    "dear(er|ly|est)": "expensive",
    "fates": "precisions, statuses",
    "obey(s|ed|ing)?": "apply",
    "peculiar(ity)?": "unsupported",
    "knobs?": "adjustable scale",
    "besides": "in addition to",
    "judg(e|es|ed|ing)": "evaluate, compare",
    "learnt": "training samples",
    "spelt": "written",
    "mended": "repaired",
    "taken? apart": "decompose, inline",
}
"""Words that the field does not use, and what it says."""

KEPT = {
    ("ptq/core/plan_entries.py", "shores"),
    ("docs/plan.md", "shores"),
}  # a key of plans of format 1

PUBLIC_PARTICIPLES = {"resolved"}  # methods of what `ptq.__all__` names
WORDS = frozenset(
    """
    benchmark build calibrate check cholesky compare conv convert convolution decode demo diagnose evaluate explain
    flatten fma frontier gemm im2col inspect install interpolate kl lint load logistic lookup main matmul mcnemar
    minmax mse multiply observe ops pack pad percentile plural portability prepare ptq quantize read reciprocal
    repair requantize rescale reshape run save sensitivity show sigmoid solve standardize tabulate
    tanh tanhf tune validate verify write
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Single words that a function may be called: verbs, and the field's names of operations and methods."""


def _functions() -> Iterator[tuple[str, str]]:
    """Public functions of modules and public methods, with where they stand."""
    for path in SOURCES:
        place = str(path.relative_to(ROOT))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield place, node.name
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for inner in node.body:
                    values = {getattr(d, "id", "") for d in getattr(inner, "decorator_list", ())}
                    if isinstance(inner, ast.FunctionDef) and "property" not in values:
                        yield f"{place}: {node.name}", inner.name


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_does_not_come_back(word: str) -> None:
    pattern = re.compile(rf"(?<![a-zA-Z]){word}(?![a-zA-Z])", re.IGNORECASE)
    found = []
    for path in TEXTS:
        place = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            hits = {hit.group().lower() for hit in pattern.finditer(line)}
            found += [f"{place}:{number}: {hit}" for hit in hits if (place, hit) not in KEPT]
    assert found == [], f"say: {RETIRED[word]}"


def _names_of_tests() -> Iterator[tuple[str, str]]:
    """Names of files, functions and classes of the tests and their docstrings, with where they stand."""
    for path in TESTS:
        place = str(path.relative_to(ROOT))
        yield place, path.stem.replace("_", " ")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield f"{place}:{getattr(node, 'lineno', 1)}", ast.get_docstring(node) or ""
                yield (
                    f"{place}:{getattr(node, 'lineno', 1)}",
                    getattr(node, "name", "").replace("_", " "),
                )


NAMES_OF_TESTS = tuple(_names_of_tests())


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_not_in_the_name_of_a_test(word: str) -> None:
    pattern = re.compile(rf"(?<![a-zA-Z]){word}(?![a-zA-Z])", re.IGNORECASE)
    found = [f"{place}: {text}" for place, text in NAMES_OF_TESTS if pattern.search(text)]
    assert found == [], f"say: {RETIRED[word]}"


def test_a_function_of_one_word_is_a_verb_or_a_name_of_the_field() -> None:
    vague = {
        f"{place}: {name}"
        for place, name in _functions()
        if ":" not in place and not name.startswith("_") and "_" not in name and name not in WORDS
    }
    assert vague == set()


def test_no_function_is_called_by_a_bare_participle() -> None:
    bare = {
        f"{place}: {name}"
        for place, name in _functions()
        if re.fullmatch(r"[a-z]+(ed|ing|told|made|known|written|given|shown)", name)
        and name not in PUBLIC_PARTICIPLES | {"feed", "_feed"}
    }
    assert bare == set()
