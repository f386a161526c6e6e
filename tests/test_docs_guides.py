"""README, CONTRIBUTING and the guides of docs/: what they name exists, and their Python runs.

The oracles are the file system, the command line's own parser and the package.
"""

from __future__ import annotations

import inspect
import re
import shlex
import unicodedata
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import typer
from ptq_cli.main import app

import ptq

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
NAMES = "tutorial_photos tutorial_arrays howto choosing troubleshooting coming_from faq python"
GUIDES = [README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / f"{n}.md" for n in NAMES.split())]
HOWTOS = sorted((ROOT / "docs" / "howto").glob("*.md"))
GUIDES += HOWTOS
PAGES = sorted({*GUIDES, *(ROOT / "docs").rglob("*.md")})
_END = re.compile(r"(?<=[.?!])\W+(?=[A-Z0-9*`\[]|ptq\b|numpy\b|examples/)")
"""Where a sentence ends; these names are written small there."""
SCREEN = 50  # lines
LONGEST = 25  # words of a sentence
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OPTIONS = {
    name: {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o[:1] == "-"}
    for name, command in COMMANDS.items()
}
FOREIGN = {"--onnx", "--int8", "--fp16", "--saveEngine", "--no-deps"}
"""Options of trtexec and pip."""
GENERAL = {"--version", "--help", "-h", "--install-completion", "--show-completion"}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _anchor(heading: str) -> str:
    """The anchor of a heading as GitHub and MkDocs make it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    kept = (c for c in plain if c in "-_ " or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(path: Path) -> set[str]:
    return {_anchor(h) for h in re.findall(r"^#+ (.*)$", _without_code(_text(path)), re.MULTILINE)}


def _sentences(text: str) -> list[str]:
    """Sentences of the prose of Markdown: no code, tables, headings or pictures."""
    text = re.sub(r"<!-- table: .*?<!-- end of table -->", "", text, flags=re.DOTALL)
    prose = re.sub(r"^(\||#|!).*$", "", _without_code(text), flags=re.MULTILINE)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    prose = re.sub(r"^:::.*?(?=^\S|\Z)|<!--.*?-->", "", prose, flags=re.DOTALL | re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\n(?= *- | *\d+\. )", prose)
    return [s for block in blocks for s in _END.split(block)]


def test_the_first_two_screens_of_the_readme_have_short_sentences():
    first = "\n".join(_text(README).splitlines()[: 2 * SCREEN])
    sentences = _sentences(first)
    assert len(sentences) >= 15
    assert [s for s in sentences if len(s.split()) > LONGEST] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_of_a_page_is_long(page: Path):
    sentences = [" ".join(s.split()) for s in _sentences(_text(page))]
    assert [s for s in sentences if len(s.split()) > LONGEST] == []


@pytest.mark.parametrize(
    "name",
    [
        *("quantize_static", "QDQ", "cross-layer equalization", "SmoothQuant", "GPTQ", "AdaRound"),
        *("LLM.int8()", "KL", "entropy", "percentile"),
    ],
)
def test_the_readme_has_the_name_that_people_search_for(name: str):
    assert name in _text(README)


def test_the_figures_of_other_tools_in_the_readme_stand_in_the_accuracy_page():
    table = re.findall(
        r"^\| .*(?:dB|0\.9\d+).*\|$", _text(README).partition("## ")[0], re.MULTILINE
    )
    figures = re.findall(r"\d+\.\d+", " ".join(table))
    assert len(figures) == 27
    known = set(re.findall(r"\d+\.\d+", _text(ROOT / "docs" / "accuracy.md")))
    assert set(figures) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path):
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _without_code(_text(page))):
        if "://" in link:
            continue
        place, _, heading = link.partition("#")
        target = page.parent / place if place else page
        known = target.exists() and (not heading or heading in _anchors(target))
        missing += [] if known else [link]
    assert missing == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda p: p.name)
def test_a_guide_is_reached_from_the_readme(page: Path):
    if page in HOWTOS:
        assert f"](howto/{page.name})" in _text(ROOT / "docs" / "howto.md")
    else:
        assert page == README or f"]({page.relative_to(ROOT)})" in _text(README)


def _commands(page: Path) -> list[list[str]]:
    """Words of each ptq command in the code blocks of a page, behind ``ptq``."""
    blocks = re.findall(r"```sh\n(.*?)```", _text(page), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    parts = [part for line in lines for part in [*shlex.split(line, comments=True), "&&"]]
    found: list[list[str]] = []
    inside = False
    for part in parts:
        if inside and part != "&&":
            found[-1].append(part)
        elif part == "ptq":
            found.append([])
        inside = part != "&&" and (inside or part == "ptq")
    return found


@pytest.mark.parametrize("page", GUIDES, ids=lambda p: p.name)
def test_every_command_of_a_guide_is_one_with_these_options(page: Path):
    for words in _commands(page):
        name, *rest = words
        assert name in OPTIONS, words
        asked = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert asked - OPTIONS[name] == set(), words


@pytest.mark.parametrize("page", GUIDES, ids=lambda p: p.name)
def test_every_option_and_name_in_the_text_of_a_guide_exists(page: Path):
    text = _without_code(_text(page))
    spans = " ".join(re.findall(r"`([^`\n]+)`", text))
    options = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", spans))
    assert options - set().union(*OPTIONS.values()) - FOREIGN - GENERAL == set()
    commands = set(re.findall(r"(?<![\w./])ptq ([a-z]+)(?![\w.])", spans))
    assert commands - set(COMMANDS) == set()
    names = set(re.findall(r"(?<![\w./])ptq\.(\w+)(?![\w/])", spans)) - {"toml", "__all__"}
    assert {name for name in names if not hasattr(ptq, name)} == set()


def test_the_site_shows_every_page_of_docs_once():
    shown = re.findall(r"^ +- (\S+\.md)$", _text(ROOT / "mkdocs.yml"), re.MULTILINE)
    docs = ROOT / "docs"
    assert sorted(shown) == sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))


def test_the_api_reference_has_every_public_function_and_class_and_nothing_else():
    members = re.findall(r"^        - (\w+)$", _text(ROOT / "docs" / "api.md"), re.MULTILINE)
    public = {name: getattr(ptq, name) for name in ptq.__all__}
    shown = {
        n for n, found in public.items() if inspect.isfunction(found) or inspect.isclass(found)
    }
    assert sorted(members) == sorted(shown)


def _python_blocks(name: str, package: str = "") -> list[str]:
    blocks = re.findall(r"```python ?(\w*)\n(.*?)```", _text(ROOT / "docs" / name), re.DOTALL)
    return [block for needed, block in blocks if needed in ("", package)]


def _run(blocks: list[str], name: str) -> None:
    session: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), session)


@pytest.mark.parametrize("package", ["", "torch"])
def test_the_code_of_the_tutorial_with_arrays_runs(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if package:
        pytest.importorskip(package, reason=f"{package} is not installed")
    blocks = _python_blocks("tutorial_arrays.md", package)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    monkeypatch.chdir(tmp_path)
    _run(blocks if not package else blocks[:2] + blocks[3:4], "tutorial_arrays.md")


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "python.md"], ids=lambda p: p.name)
def test_the_first_code_of_a_page_runs_on_photos(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "model.onnx").symlink_to(ROOT / "sample_data" / "fashion_mobilenet.onnx")
    (tmp_path / "images").symlink_to(ROOT / "sample_data" / "images" / "calibration" / "3_dress")
    monkeypatch.chdir(tmp_path)
    _run(re.findall(r"```python\n(.*?)```", _text(page), re.DOTALL), page.name)
    assert (tmp_path / "model.int8.onnx").is_file()
    assert capsys.readouterr().out


def _literals(hint: object) -> set[str]:
    """The texts of the literal types in a type."""
    parts = get_args(hint)
    if get_origin(hint) is Literal:
        return {part for part in parts if isinstance(part, str)}
    return set().union(*map(_literals, parts))


def _choices() -> dict[str, set[str]]:
    """The values of every option that has a fixed list of them, from the types of the parameters."""
    found: dict[str, set[str]] = {}
    for command in app.registered_commands:
        for parameter in inspect.signature(command.callback).parameters.values():  # type: ignore[arg-type]
            base, *notes = get_args(parameter.annotation) or (None,)
            values = _literals(base)
            for option in (o for note in notes for o in (note.default, *(note.param_decls or ()))):
                if values and isinstance(option, str) and option.startswith("--"):
                    found.setdefault(option, set()).update(values)
    return found


CHOICES = _choices()
assert {"--target", "--method", "--arithmetic", "--task"} <= set(CHOICES)
DOCUMENTS = "\n".join(
    _text(page) for page in PAGES if page.name != "cli.md" and page.parent.name != "accuracy"
)


@pytest.mark.parametrize("option", sorted(CHOICES))
def test_every_value_that_the_documents_give_an_option_exists(option: str):
    given = set(re.findall(rf"(?<![\w-]){option}[ =]([a-z0-9][\w@.-]*)", DOCUMENTS))
    given = {value.rstrip(".") for value in given}
    words = {
        "and",
        "or",
        "of",
        "is",
        "with",
        "for",
        "to",
        "from",
        "says",
        "takes",
        "measures",
    }
    assert {v for v in given - CHOICES[option] - words if "@" not in v} == set()


@pytest.mark.parametrize("option", sorted(CHOICES))
def test_every_value_of_an_option_is_in_the_documents(option: str):
    known = set(re.findall(r"[\w@-]+", DOCUMENTS))
    assert CHOICES[option] - known == set()


def test_the_page_of_tasks_names_every_metric_and_nothing_else():
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for part in ("evaluation", "api")
        for path in (ROOT / "ptq" / part).rglob("*.py")
    )
    constants = dict(re.findall(r'^([A-Z_]+) = "([^"]+)"$', code, re.MULTILINE))
    for names, values in re.findall(r'^([A-Z_, 0-9]+) = (".+")$', code, re.MULTILINE):
        constants |= zip(names.split(", "), re.findall(r'"([^"]+)"', values), strict=True)
    used = re.findall(r'(?:Drop\(\s*|metric: str = |metric=)("[^"]+"|[A-Z_0-9]+)[,)\n]', code)
    metrics = {name.strip('"') if '"' in name else constants[name] for name in used}
    section = (
        (ROOT / "docs" / "tasks.md")
        .read_text(encoding="utf-8")
        .partition("## Names of the metrics")[2]
    )
    table = re.findall(r"^\| `([^`]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert sorted(table) == sorted(metrics)


def test_every_command_and_public_function_is_in_the_documents():
    assert {name for name in COMMANDS if f"ptq {name}" not in DOCUMENTS} == set()
    functions = {name for name in ptq.__all__ if inspect.isfunction(getattr(ptq, name))}
    assert {name for name in functions if f"ptq.{name}" not in DOCUMENTS} == set()
