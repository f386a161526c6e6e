"""How results read; the oracle is the text a person expects for figures that are set here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ptq_cli.render.drops import render_ranking
from ptq_cli.render.report import render_report
from ptq_cli.render.tables import render_evaluation, render_inspection
from ptq_cli.render.verification import render_portability, render_verification
from reports import EVALUATION, REPORT

from ptq.data.splits import ON_CALIBRATION
from ptq.evaluation.drop import measure_top1_drop
from ptq.evaluation.ranking import NodeCost, Ranking
from ptq.evaluation.report.inspection import Inspection
from ptq.evaluation.report.report_data import NodeRow
from ptq.verification.node_status import NodeStatus
from ptq.verification.portability import NodeRisk, Portability
from ptq.verification.verify import TensorDifference, Verification

NEXT = "ptq inspect out.onnx"


@pytest.fixture
def printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(show, *arguments):
        show(*arguments)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        return " ".join(text.split())

    return run


def test_a_report_says_sizes_speed_and_how_images_were_prepared(printed):
    text = printed(render_report, REPORT, "out.onnx", NEXT)
    size = "size 4.0 MB → 1.0 MB (4.00 times smaller); speed 2.50× float (ONNX Runtime, batch 1)"
    assert text.count(size) == 2
    assert "BGR, shorter side resized to 256, centre cropped to 224×224, − (0.4, 0.5, 0.6)" in text


def test_the_verdict_stands_first_and_last_in_four_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    drop = measure_top1_drop([True] * 200, [True] * 195 + [False] * 5)
    forms = {**EVALUATION.forms, "int8": replace(EVALUATION.forms["int8"], drop=drop)}
    report = replace(REPORT, evaluation=replace(EVALUATION, forms=forms))
    render_report(report, "out.onnx", NEXT)
    lines = capsys.readouterr().out.splitlines()
    verdict = [
        "net.onnx → out.onnx",
        "  top-1 accuracy: −2.50 points (90.00 % → 88.50 %, 95 % CI −5.72 … −0.57)",
        "  same answer as float: 97.00 % (SQNR 30.0 dB: usual for int8)",
        "  size 4.0 MB → 1.0 MB (4.00 times smaller); speed 2.50× float (ONNX Runtime, batch 1)",
        "  2 of 4 nodes in integers (1 int8, 1 folded, 2 float)",
    ]
    assert lines[:5] == verdict
    assert lines[-7:-2] == verdict
    assert lines[-2] == "  Questions: ptq explain accuracy-collapsed"
    assert lines[-1].startswith("Written: out.onnx. Next: ")


def test_three_worst_tensors_are_shown_and_all_with_verbose(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    rows = tuple(replace(REPORT.tensors[0], name=f"tensor{k}") for k in range(7))
    report = replace(REPORT, tensors=rows)
    for verbose, count in ((False, 3), (True, 7)):
        monkeypatch.setattr("ptq_cli.render.report.is_verbose", lambda verbose=verbose: verbose)
        render_report(report, "out.onnx", NEXT, {"tensor0": "▁▄█▄▁"})
        text = capsys.readouterr().out
        assert [f"tensor{k} (" in text for k in range(7)] == [True] * count + [False] * (7 - count)
        assert ("7 tensors; -v shows all" in text) is not verbose
        assert "▁▄█▄▁" in text


def test_no_line_is_folded_in_a_pipe(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "a_sentence_without_end " * 40
    render_report(replace(REPORT, changes=(long,)), "out.onnx", NEXT)
    assert f"  {long.strip()}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", ["0", "5", "-3", "²", "9" * 5000, "wide"])
def test_columns_of_no_use_fold_nothing(capsys, monkeypatch, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    render_report(REPORT, "out.onnx", NEXT)
    expected = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", width)
    render_report(REPORT, "out.onnx", NEXT)
    assert capsys.readouterr().out == expected != ""


def test_inspect_groups_nodes_of_one_reason_with_their_number(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    rows = tuple(
        NodeRow(f"clip{k}", "Clip", "int8", f"may be folded into conv{k}") for k in range(60)
    )
    found = Inspection("m.onnx", 17, "ort", (), (*rows, NodeRow("e", "Erf", "float", "no form")), 3)
    render_inspection(found)
    lines = capsys.readouterr().out.splitlines()
    grouped = [line for line in lines if "clip" in line]
    assert grouped == [
        " 60  int8    Clip      clip0, clip1, clip2 and 57 nodes more (-v lists them): "
        "may be folded into the node before"
    ]
    assert any(line.split()[:3] == ["1", "float", "Erf"] for line in lines)


def test_a_node_that_was_measured_twice_to_the_same_gain_has_one_line(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    costs = (
        NodeCost("add", "Add", (), "t", 0.4, alone=True, won_db=2.0, measured_db=1.5),
        NodeCost("add", "Add", ("relu",), "t", 0.3, alone=True, won_db=1.0, measured_db=1.5),
        NodeCost("mul", "Mul", (), "t", 0.2, alone=True, won_db=0.5),
        NodeCost("mul", "Mul", ("relu",), "t", 0.1, alone=True, won_db=0.4),
    )
    drop = measure_top1_drop([True] * 9, [True] * 9)
    render_ranking(Ranking("m.onnx", "ort", 9, 30.0, drop, 4, 9, 2, 4, costs))
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("Add add") for line in lines if "Add add" in line] == [1]
    assert len([line for line in lines if "Mul mul" in line]) == 2


def test_the_next_command_is_not_folded(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = f"ptq verify out.onnx --data {'folder/' * 30}"
    render_report(REPORT, "out.onnx", command)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"Written: out.onnx. Next: {command}"


def test_changes_of_accuracy_are_signed_percentage_points(printed):
    text = printed(render_report, REPORT, "out.onnx", NEXT)
    assert "int8 in ONNX Runtime 88.50 −1.50 99.50 +0.50 97.00 30.0 0.999000" in text
    assert "200 labelled samples of 250" in text


def test_an_output_without_error_has_an_infinite_ratio(printed):
    assert "boxes int8 in ONNX Runtime ∞ 1.000000" in printed(
        render_report, REPORT, "out.onnx", NEXT
    )


def test_nodes_left_float_are_grouped_by_their_reason(printed):
    text = printed(render_report, REPORT, "out.onnx", NEXT)
    assert "4 nodes: 1 int8, 1 folded into the node before, 2 float" in text
    assert "float: 2 Erf: no integer form" in text
    assert "float islands (last bits may differ between both engines): 2 Erf" in text


def test_the_error_of_a_tensor_is_shared_between_rounding_and_clipping(printed):
    assert "12.5 75, 25 1.000 -1 … 2" in printed(render_report, REPORT, "out.onnx", NEXT)


def test_figures_on_calibration_samples_are_marked(printed):
    text = printed(
        render_report,
        replace(REPORT, evaluated_on=ON_CALIBRATION),
        "out.onnx",
        NEXT,
    )
    assert "Accuracy ON CALIBRATION SAMPLES (250 samples)" in text


def test_a_report_without_samples_says_so(printed):
    text = printed(render_report, replace(REPORT, evaluation=None, speed=None), "out.onnx", NEXT)
    assert "Accuracy was not measured" in text
    assert "× float" not in text


def test_without_labels_there_is_no_accuracy(printed):
    forms = {name: replace(form, accuracy=None) for name, form in EVALUATION.forms.items()}
    text = printed(
        render_evaluation,
        replace(EVALUATION, forms=forms),
        Path("q.onnx"),
        "litert",
    )
    assert "top-1" not in text
    assert "integer executor (litert) 97.00 30.0 0.999000" in text


@pytest.mark.parametrize(
    ("locally", "has_float", "arises"),
    [(3, True, "in this node"), (0, True, "upstream, in float code"), (0, False, "upstream")],
)
def test_a_verification_names_the_first_tensor_that_diverges(printed, locally, has_float, arises):
    floats = (NodeStatus("h", "HardSigmoid", "float", "must stay float: no kernel"),)
    result = Verification(
        arithmetic="ort",
        optimized=True,
        samples=2,
        tensors=(
            TensorDifference("same", "n0", "Conv", 10, 0, 0, 0),
            TensorDifference("other", "n1", "Add", 10, 3, 1, locally),
        ),
        islands={},
        floats=floats if has_float else (),
        intact=False,
        exact_products=False,
        arithmetic_version="ort@1.31",
        outputs=20,
        changed_outputs=4,
        changed_share=0.0125,
    )
    text = printed(render_verification, result)
    assert "1 tensor differs; first: other, output of n1 (Add): 3 of 10 elements differ" in text
    assert f"by up to 1 LSB; the mismatch starts {arises}" in text
    assert "end to end: 3 differ" in text
    assert f"ONNX Runtime's own integers: {locally} differ" in text
    assert ("float: 1 HardSigmoid: no kernel" in text) == has_float
    assert ("in float code" in text) == arises.endswith("in float code")
    assert "changed 4 of 20 values of ONNX Runtime's outputs, by up to 1e-02 of the largest" in text
    assert "without VNNI" in text
    assert text.startswith("2 integer tensors, 20 elements")
    islands = {"e": ("Erf",)}
    some = printed(render_verification, replace(result, not_compared=3, islands=islands))
    assert "float islands (same result in both engines): 1 Erf" in some
    assert some.startswith("2 of 5 integer tensors, 20 elements")
    assert "3 integer tensors could not be compared: float operators compute them" in some


def test_risks_are_said_with_their_remedies(printed):
    risk = NodeRisk("c", "Conv", 9.4, 12.0, 8, 3, 5, 60, 2, 1000)
    calm = replace(risk, node="d", saturable=0, saturated=0, largest=0, bits_left=7.25)
    text = printed(render_portability, Portability(2, (risk, calm)))
    assert "fit int32; 7.2 bits to spare for the worst input, 12.0 on these samples" in text
    assert "exact ties: 4 of 2000 outputs" in text
    assert "1 node can saturate; 5 integers in 1 node would change on these samples" in text
    assert "c (Conv) 8 3 1000 5 60" in text
    assert text.count("remedy:") == 3
    assert "options of ptq quantize: --weights reduced, --weights u8" in text
    wide = Portability(2, (replace(risk, bits_left=-0.3),))
    assert "may overflow int32; -0.3 bits to spare" in printed(render_portability, wide)
    assert "no pair of weights can saturate" in printed(render_portability, Portability(2, (calm,)))


def test_the_heading_counts_evaluation_samples_that_are_calibration_samples(printed):
    text = printed(
        render_report,
        replace(
            REPORT,
            evaluated_on="on 250 evaluation samples, 9 of them also calibration samples",
            shared_samples=9,
        ),
        "out.onnx",
        NEXT,
    )
    assert (
        "Accuracy on 250 evaluation samples, 9 of them also calibration samples, output scores"
        in text
    )
