"""Calibration in Airflow: put this file and steps.py into the folder of DAGs. Needs apache-airflow."""

from airflow.sdk import dag, task
from steps import calibrate_shard, merge_shards, quantize_model

SHARDS = 8
MODEL, DATA, FOLDER = "model.onnx", "s3://bucket/calib/", "s3://bucket/out"


@dag(schedule=None)
def quantize_from() -> None:
    """Count the shards at once, merge them, quantize."""
    count_shard = task(calibrate_shard, retries=3).partial(
        model=MODEL, data=DATA, count=SHARDS, folder=FOLDER
    )
    parts = count_shard.expand(index=list(range(SHARDS)))
    stats = task(merge_shards)(parts, f"{FOLDER}/model.stats.npz")
    task(quantize_model)(MODEL, stats, f"{FOLDER}/model.int8.onnx")


quantize_from()
