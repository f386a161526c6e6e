"""Calibration as steps for a workflow manager: one for each shard, and one that merges.

Each step is a function of plain texts and numbers that returns a text, so that every manager can pickle it, repeat it
and run it on another machine. Places may be URLs.
"""

from __future__ import annotations

import ptq


def calibrate_shard(model: str, data: str, index: int, count: int, folder: str) -> str:
    """Count one shard of the samples; a repeated step writes the same bytes to the same place."""
    place = f"{folder}/shard-{index}-of-{count}.npz"
    ptq.calibrate(model, data, shard=(index, count), threads=1).save(place)
    return place


def merge_shards(places: list[str], output: str) -> str:
    """Merge all shards; one that is missing or counted twice is an error."""
    ptq.merge_statistics(places).save(output)
    return output


def quantize_model(model: str, stats: str, output: str) -> str:
    """Quantize with the merged statistics."""
    ptq.quantize(model, stats=stats, threads=1, force=True).save(output)
    return output
