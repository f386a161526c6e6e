"""A pipeline: calibrate in two processes, quantize, log to MLflow, write a job summary, and fail below the budget.

python examples/ci/pipeline.py MODEL DATA OUTPUT MAX_DROP

MLFLOW_TRACKING_URI names the server. GITHUB_STEP_SUMMARY names the job summary, if there is one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ptq


def run_pipeline(model: str, data: str, output: str, max_drop: float) -> int:
    """Run all stages; the exit code is 3 if the budget is not shown to hold."""
    stats = ptq.calibrate(model, data, workers=2, threads=1)
    result = ptq.quantize(model, data, stats=stats, max_drop=max_drop, threads=1)
    result.save(output)
    ptq.log_to_mlflow(result)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(result.report.to_markdown() + "\n")
    try:
        result.report.require_budget()
    except ptq.BudgetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":  # worker processes import this file
    sys.exit(run_pipeline(*sys.argv[1:4], max_drop=float(sys.argv[4])))
