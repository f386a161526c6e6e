"""A small model and its samples, for tests of how a job runs: cancelled, in threads, in processes."""

import numpy as np
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, SAME, WB, V

import ptq
from ptq.core.run_options import Progress

MODEL = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\ng = GlobalAveragePool(d)\n"
    "f = Flatten(g)\ny = Gemm(f, m)",
    {"x": ("n", 3, 8, 8)},
    v=V,
    m=gaussian_array(8, 10),
    **WB,
)
FEW = {"x": np.concatenate([f["x"] for f in random_feeds(MODEL, 24)])}


def run_job(verb: str, progress: Progress | None = None) -> bytes:
    """Run one verb on the model; what it gives, without measured times."""
    if verb == "calibrate":
        return ptq.calibrate(MODEL, FEW, threads=1, progress=progress).to_bytes()
    if verb == "evaluate":
        return repr(ptq.evaluate(MODEL, FEW, against=MODEL, threads=1, progress=progress)).encode()
    made = ptq.quantize(MODEL, FEW, threads=1, equalize=False, progress=progress)
    return made.model.SerializeToString(deterministic=True) + made.plan.to_json().encode()
