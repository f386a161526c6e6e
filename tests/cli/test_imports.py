"""What a command loads before it works: the oracle is ``sys.modules`` of its own process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import ptq

SCIPY = tuple(int(part) for part in version("scipy").split(".")[:2])
HEAVY = {"onnx", "onnxruntime", "onnx_ir", "scipy"}
"""What takes longer to load than the fast commands take in all."""
PROGRAM = """
import json, sys
from ptq_cli.main import main
sys.argv = ["ptq", *json.loads(sys.argv[1])]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def _modules_after(*arguments: str, folder: Path) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, json.dumps(arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["quantize", "--help"], ["ops"], ["ops", "--json", "-"]],
)
def test_help_and_the_operator_table_load_no_runtime(arguments, tmp_path):
    loaded = _modules_after(*arguments, folder=tmp_path)
    assert "ptq_cli.main" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()


def test_the_package_alone_loads_no_runtime():
    code = "import sys, ptq; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & {*HEAVY, "numpy"} == set()


@pytest.mark.skipif(SCIPY < (1, 12), reason="SciPy 1.11 loads some of its parts with any other")
def test_quantizing_one_node_loads_no_part_of_scipy_and_sympy(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 2] y) '
        "<float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }"
    )
    onnx.save(model, tmp_path / "one.onnx")
    x = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    loaded = _modules_after("quantize", "one.onnx", "--data", "x.npz", folder=tmp_path)
    assert (tmp_path / "one.int8.onnx").exists()
    parts = {"scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.special"}
    assert loaded & {*parts, "sympy.core"} == set()


def test_a_module_that_loads_late_is_there_when_it_is_used():
    code = (
        "import sys; from ptq.core import lazy_modules; lazy_modules.install_lazy_modules(); import onnx_ir; "
        "late = 'sympy.core' not in sys.modules; print(late, onnx_ir.SymbolicDim('N') + 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split(maxsplit=1) == ["True", "N + 1\n"]


def test_each_public_name_has_the_same_home_for_users_and_type_checkers():
    tree = ast.parse(Path(ptq.__file__).read_text(encoding="utf-8"))
    [checked] = (node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == ptq._HOMES
    assert {*homes, "__version__"} == set(ptq.__all__)
    assert set(ptq.__all__) <= set(dir(ptq))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'ptq' has no attribute 'quantise'"):
        ptq.quantise  # noqa: B018
