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
VERBS = frozenset(
    """
    absorb accept add advise align allow answer append apply are arrange as assess assign attribute average
    await balance benchmark bisect bootstrap bound broadcast build bypass calibrate call can cancel cast
    check choose clamp classify clean clip close collect combine compare compensate complete compute concat
    connect contains convert copy correct count cut decide declare decode decompose deduplicate derive
    describe detach diagnose digest discard display divide doubt draw drop edit emit encode end equalize
    escape estimate evaluate exempt exit expand explain extend extract factorize fall fetch fill find finish
    fit fix flatten flush fold follow forget format from fuse gather generalize get group grow guard guess
    handle has have hold identify import indent index infer insert inspect install interpolate intersect is
    iterate join keep lay leave lend limit link lint list load locate log lower make map mark match
    materialize may measure merge mirror move multiply name narrow needs normalize note number observe open
    optimize order own pack pad parse partition peel permute pick place plan pool predict prepare preprocess
    prevent price print propagate propose protect push put quantize raise rank read recognize record redact
    redirect reduce refine refuse register rehearse release remove rename render reopen reorder repair
    repeat replace requantize require resample rescale reset reshape resize resolve restore resume retry
    return rewrite round run saturate save scale score search select separate serialize set share shift
    shorten show simplify skip slice solve sort split spread standardize start stop subtract suggest sum
    summarize suppress tabulate take tally thin time title to trace try tune unite unpack unpickle unquote
    untrack upgrade use validate verify view walk widen with without wrap write
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""The first word of each function of a module: a verb, or what begins a predicate or a conversion."""
NAMES_OF_THE_FIELD = frozenset(
    """
    celu demo doubling_high_mul exp_of_last_quarter exp_of_negative exponential_unit fma frontier im2col
    inverse_sqrt kl leading_zeros log_of_one_and_more logistic lookup main minmax mse
    one_minus_over_one_plus one_over_one_plus ops percentile plural portability ptq reciprocal
    rounding_half_sum sensitivity softplus tanh two_over_one_plus x_log_x
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Functions without a verb: methods and mathematics under their usual names, and the commands of users."""


def _functions() -> Iterator[tuple[str, str]]:
    """Functions of modules and methods of public classes, with where they stand."""
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


def test_a_function_begins_with_a_verb() -> None:
    wrong = {
        f"{place}: {name}"
        for place, name in _functions()
        if ":" not in place
        and not name.startswith("__")
        and name.strip("_") not in NAMES_OF_THE_FIELD
        and name.strip("_").partition("_")[0] not in VERBS
    }
    assert wrong == set()


def test_no_function_is_called_by_a_bare_participle() -> None:
    bare = {
        f"{place}: {name}"
        for place, name in _functions()
        if re.fullmatch(r"[a-z]+(ed|ing|told|made|known|written|given|shown)", name)
        and name not in PUBLIC_PARTICIPLES | {"feed", "_feed"}
    }
    assert bare == set()
