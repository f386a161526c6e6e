"""Options that name files of labels: boxes, texts, the characters of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Transcripts = Annotated[
    Path | None,
    typer.Option(
        "--transcripts",
        metavar="FILE",
        help="Labels of texts: a table with columns path and text, lines 'path text', or one text for each sample on "
        "a line. Exact lines and wrong characters are measured.",
    ),
]
Alphabet = Annotated[
    Path | None,
    typer.Option(
        "--alphabet",
        metavar="FILE",
        help="Characters of a recognizer's classes, for --transcripts: one on each line, or a vocabulary in JSON. By "
        "default those of the model's metadata (character).",
    ),
]
Boxes = Annotated[
    Path | None,
    typer.Option(
        "--boxes",
        metavar="PATH",
        help="Labels of boxes for a folder of images: COCO's JSON file, or a folder of YOLO's text files. mAP50 and "
        "mAP50-95 are measured.",
    ),
]
