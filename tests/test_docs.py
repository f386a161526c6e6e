"""Documents that are made from the program, against the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from ptq_cli.commands.frontier import TimedTargetName
from ptq_cli.commands.lint import LintTargetName
from ptq_cli.operator_table import list_op_rows
from ptq_cli.options import shared as options

from ptq.api.benchmark import DEFAULT_SECONDS
from ptq.api.sensitivity import DEFAULT_MEASURED
from ptq.core.ops import OPS
from ptq.core.run_options import DEFAULT_RUN
from ptq.core.targets import TARGETS
from ptq.evaluation.runs.engines import EngineName
from ptq.executor.arithmetics import ALL_ARITHMETICS, ARITHMETICS
from ptq.observers import OBSERVERS
from ptq.solver.recipe import QuantizedForm, RoundingMethod, WeightFormatOption

ROOT = Path(__file__).resolve().parents[1]


def test_the_generated_pages_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts" / "docs"), "--check"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_of_operators_has_a_row_for_each_and_a_column_for_each_arithmetic():
    rows = list_op_rows()
    assert [row.op for row in rows] == list(OPS)
    assert all(list(row.runs) == list(ARITHMETICS) for row in rows)
    assert all(list(row.outputs) == list(TARGETS) for row in rows)
    for row in rows:
        runs = {name for name, how in row.runs.items() if how == "runs"}
        refused = {name for name, how in row.runs.items() if how == "refused"}
        assert refused == {a.name for a in ALL_ARITHMETICS if row.op in a.lacking}
        assert runs | refused == {
            name for name, kernels in ARITHMETICS.items() if row.op in kernels
        }


@pytest.mark.parametrize(
    ("said", "table"),
    [
        (options.MethodName, {"auto": None, **OBSERVERS}),
        (options.TargetName, TARGETS),
        (options.ArithmeticName, ARITHMETICS),
        (LintTargetName, [name for name, row in TARGETS.items() if row.lint is not None]),
        (TimedTargetName, [name for name, row in TARGETS.items() if row.costs is not None]),
    ],
    ids=["methods", "targets", "arithmetics", "lint targets", "timed targets"],
)
def test_help_offers_every_name_that_there_is(said, table):
    assert list(get_args(said)) == list(table)


def test_the_command_line_has_the_choices_and_defaults_of_the_program():
    assert options.Form == QuantizedForm
    assert options.WeightFormat == WeightFormatOption
    assert options.Rounding == RoundingMethod
    assert options.EngineName == EngineName
    assert DEFAULT_RUN.evaluation_batch == options.DEFAULT_BATCH
    assert DEFAULT_RUN.calibration_batch == options.DEFAULT_CALIBRATION_BATCH
    assert options.DEFAULT_SECONDS == DEFAULT_SECONDS
    assert options.DEFAULT_MEASURED == DEFAULT_MEASURED
