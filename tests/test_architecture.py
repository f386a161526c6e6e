"""The house rules that can be read off the source: who imports whom, what is packaged, how long files are.

The oracle is the syntax tree of every module; nothing is run but for the test of importability.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 300  # lines of one file
FLOORS = 7  # of one package, each importing from those below it

# What stands higher may import what stands lower; what stands side by side may not import each other.
LAYERS = (
    "core",
    "kernels model observers page",
    "data rewrite",
    "executor solver",
    "calibration evaluation verification",
    "optimization",
    "api",
    "__init__ ptq_cli",
)
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer.split()}

ALLOWED = {
    "onnxruntime": {
        "ptq.model.session.exact_sums",
        "ptq.model.session.ort_value",
        "ptq.model.machine.ort_version",
        "ptq.model.session.provider_session",
        "ptq.model.session.session",
        "ptq.model.session.session_tuning",
    },
    "onnx_ir": {"ptq.model", "ptq.rewrite"},
    "onnx": {"ptq.model", "ptq.rewrite", "ptq.evaluation.result"},  # the last: a type it returns
    "PIL": {"ptq.data"},
    "fast_sugiyama": {"ptq.page.layout"},
    "jinja2": {"ptq.page.render"},
    "flatbuffers": {"ptq.rewrite.tflite.flatbuffer", "ptq.rewrite.tflite.standard_metadata"},
    "fsspec": {"ptq.core.remote", "ptq.data.list_objects"},
    "pyarrow": {"ptq.data.sources.parquet"},
    "rich": {"ptq_cli"},
    "typer": {"ptq_cli"},
}


def _sources() -> dict[str, Path]:
    """Every module by the name under which it is imported."""
    found = {}
    for folder, package in (("ptq", "ptq"), ("cli", "ptq_cli")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = path
    return found


SOURCES = _sources()


def _imports(module: str) -> Iterator[str]:
    """What a module imports, each by its full name; what it needs for types alone too."""
    path = SOURCES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join((*above, *([base] if base else [])))
            inner = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in SOURCES else base for name in inner)


def _unit(module: str) -> str:
    """The part of the house that a module belongs to."""
    package, _, rest = module.partition(".")
    return package if package == "ptq_cli" else rest.partition(".")[0] or "__init__"


def test_every_module_has_its_place_in_the_layers():
    units = {_unit(module) for module in SOURCES} - {"__main__"}
    assert units == set(RANK)


def test_imports_point_one_way():
    upward = [
        f"{module} -> {imported}"
        for module in SOURCES
        for imported in _imports(module)
        if imported in SOURCES
        and module != "ptq.__main__"  # the one that starts the command line
        and _unit(module) != _unit(imported)
        and RANK.get(_unit(imported), 0) >= RANK.get(_unit(module), len(LAYERS))
    ]
    assert upward == []


def _rooms(package: str) -> dict[str, set[str]]:
    """What each module and package right inside a package imports of the others there."""
    found: dict[str, set[str]] = {}
    for module in SOURCES:
        if not module.startswith(f"{package}.") or module.endswith("__main__"):
            continue
        room = module.removeprefix(f"{package}.").partition(".")[0]
        below = found.setdefault(room, set())
        for imported in _imports(module):
            if imported in SOURCES and imported.startswith(f"{package}."):
                below.add(imported.removeprefix(f"{package}.").partition(".")[0])
        below.discard(room)
    return found


@pytest.mark.parametrize("package", [m for m, p in SOURCES.items() if p.name == "__init__.py"])
def test_no_package_has_more_than_seven_floors_or_a_circle(package):
    rooms, floor = _rooms(package), dict[str, int]()
    for room in TopologicalSorter(rooms).static_order():
        floor[room] = 1 + max((floor[below] for below in rooms.get(room, ())), default=0)
    assert max(floor.values(), default=0) <= FLOORS


def test_ptq_shows_the_verbs_and_thirteen_packages_below_them():
    shown = {path.relative_to(ROOT / "ptq").parts[0] for path in (ROOT / "ptq").rglob("*.py")}
    files = {"__init__.py", "__main__.py"}
    packages = set(" ".join(LAYERS).split()) - {"__init__", "ptq_cli"}
    assert shown == files | packages
    assert len(packages - {"api"}) == 13


def test_core_holds_only_what_two_packages_of_the_third_layer_or_higher_import():
    readers: dict[str, set[str]] = {m: set() for m in SOURCES if m.startswith("ptq.core.")}
    for module in SOURCES:
        if RANK.get(_unit(module), 0) >= 2:
            for imported in _imports(module):
                readers.get(imported, set()).add(_unit(module))
    parts = {m: {i for i in _imports(m) if i in readers} - {m} for m in readers}
    for module in reversed([*TopologicalSorter(parts).static_order()]):
        for part in parts[module]:  # of a module that is split
            readers[part] |= readers[module]
    assert {module for module, units in readers.items() if len(units) < 2} == set()


def test_no_modules_import_each_other_in_a_circle():
    below = {m: {i for i in _imports(m) if i in SOURCES} - {m} for m in SOURCES}
    try:
        order = list(TopologicalSorter(below).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    assert set(order) == set(SOURCES)


def test_kernels_know_arrays_types_and_errors_only():
    allowed = {"kernels", "core"}
    strangers = [
        f"{module} -> {imported}"
        for module in SOURCES
        if _unit(module) == "kernels"
        for imported in _imports(module)
        if imported in SOURCES and _unit(imported) not in allowed
    ]
    assert strangers == []


@pytest.mark.parametrize("library", ALLOWED)
def test_a_library_is_imported_behind_its_door_only(library):
    importers = {
        module
        for module in SOURCES
        for imported in _imports(module)
        if imported.partition(".")[0] == library
    }
    doors = ALLOWED[library]
    assert importers, f"nobody imports {library}"
    assert {m for m in importers if not any(f"{m}.".startswith(f"{d}.") for d in doors)} == set()


def test_the_command_line_names_its_own_modules_relatively():
    absolute = [
        module
        for module, path in SOURCES.items()
        if module.startswith("ptq_cli")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and not node.level and "cli" in (node.module or "")
    ]
    assert absolute == []


def test_every_folder_with_modules_is_packaged():
    with (ROOT / "pyproject.toml").open("rb") as stream:
        listed = tomllib.load(stream)["tool"]["setuptools"]["packages"]
    packages = [m for m, path in SOURCES.items() if path.name == "__init__.py"]
    folders = {path.parent for path in SOURCES.values()}
    assert sorted(listed) == sorted(
        [*packages, "ptq_docs", "ptq_sample"]
    )  # for ptq explain and ptq demo
    assert len(folders) == len(packages)


@pytest.mark.parametrize("module", [m for m in SOURCES if not m.endswith("__main__")])
def test_every_module_can_be_imported(module):
    assert importlib.import_module(module).__doc__


def test_no_file_is_too_long_to_read_in_one_sitting():
    lengths = {m: len(p.read_text(encoding="utf-8").splitlines()) for m, p in SOURCES.items()}
    assert {m: n for m, n in lengths.items() if n > LONGEST} == {}


def test_no_module_is_a_drawer_for_odds_and_ends():
    drawers = {"utils", "helpers", "common", "manager", "misc"}
    assert [m for m in SOURCES if drawers & set(m.split("."))] == []


@pytest.mark.parametrize(
    "package",
    sorted(p.parent for part in ("ptq", "cli") for p in (ROOT / part).rglob("__init__.py")),
    ids=str,
)
def test_the_index_of_a_package_names_all_its_files(package: Path) -> None:
    if package == ROOT / "ptq":
        return
    index = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    files = {p.stem for p in package.glob("*.py")} - {"__init__", "__main__"}
    folders = {p.parent.name for p in package.glob("*/__init__.py")}
    words = set(re.findall(r"\w+", index))
    assert not (files | folders) - words


def test_a_node_is_looked_up_in_the_operator_table_by_its_name_there():
    # the name of the operator alone finds no Resize
    look_up = re.compile(
        r"\bOPS(?:\.get\(|\[)(?!get_spec_name\(|step\.op)|operator\(\w+\) (?:not )?in OPS\b|(?<!\.)\bop in OPS\b"
    )
    wrong = [m for m, path in SOURCES.items() if look_up.search(path.read_text(encoding="utf-8"))]
    assert wrong == []
