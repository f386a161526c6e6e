"""The symptoms that docs/troubleshooting.md explains; messages name the section that helps."""

from __future__ import annotations

from typing import Literal

Topic = Literal[
    "accuracy-collapsed",
    "a-few-answers-changed",
    "detections-are-all-zero-or-all-shifted",
    "slower-than-float",
    "not-four-times-smaller",
    "does-not-load",
    "differs-on-another-machine",
    "nothing-or-hardly-anything-is-quantized",
    "out-of-memory-or-too-slow-to-calibrate",
    "the-budget-is-undecided",
    "refused-data",
]
"""Anchors of the sections, in their order."""


def name_command(*topics: Topic) -> str:
    """The command that prints the sections."""
    return f"ptq explain {' '.join(topics)}"
