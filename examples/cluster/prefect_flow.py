"""Calibration in Prefect: ``python prefect_flow.py``. Needs prefect; retries are Prefect's."""

from prefect import flow, task
from steps import calibrate_shard, merge_shards, quantize_model

SHARDS = 8

count_shard = task(calibrate_shard, retries=3, retry_delay_seconds=10)
merge = task(merge_shards)
quantize = task(quantize_model)


@flow
def quantize_from(model: str, data: str, folder: str) -> str:
    """Count the shards at once, merge them, quantize."""
    parts = [count_shard.submit(model, data, k, SHARDS, folder) for k in range(SHARDS)]
    stats = merge([part.result() for part in parts], f"{folder}/model.stats.npz")
    return quantize(model, stats, f"{folder}/model.int8.onnx")


if __name__ == "__main__":
    quantize_from("model.onnx", "s3://bucket/calib/", "s3://bucket/out")
