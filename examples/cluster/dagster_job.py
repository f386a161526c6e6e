"""Calibration in Dagster: ``dagster dev -f dagster_job.py``. Needs dagster; retries are Dagster's."""

from dagster import DynamicOut, DynamicOutput, RetryPolicy, job, op
from steps import calibrate_shard, merge_shards, quantize_model

SHARDS = 8
MODEL, DATA, FOLDER = "model.onnx", "s3://bucket/calib/", "s3://bucket/out"


@op(out=DynamicOut(int))
def list_shards():
    """The number of each shard."""
    for index in range(SHARDS):
        yield DynamicOutput(index, mapping_key=str(index))


@op(retry_policy=RetryPolicy(max_retries=3))
def count_shard(index: int) -> str:
    """Count one shard."""
    return calibrate_shard(MODEL, DATA, index, SHARDS, FOLDER)


@op
def merge(parts: list[str]) -> str:
    """Merge all shards."""
    return merge_shards(parts, f"{FOLDER}/model.stats.npz")


@op
def quantize(stats: str) -> str:
    """Quantize with the merged statistics."""
    return quantize_model(MODEL, stats, f"{FOLDER}/model.int8.onnx")


@job
def quantize_from():
    """Count the shards at once, merge them, quantize."""
    quantize(merge(list_shards().map(count_shard).collect()))
