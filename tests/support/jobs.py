"""A small model and its samples, for tests of how a job runs: cancelled, in threads, in processes."""

import numpy as np
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, SAME, WB, V

MODEL = build_network(
    CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\ng = GlobalAveragePool(d)\n"
    "f = Flatten(g)\ny = Gemm(f, m)",
    {"x": ("n", 3, 8, 8)},
    v=V,
    m=gaussian_array(8, 10),
    **WB,
)
FEW = {"x": np.concatenate([f["x"] for f in random_feeds(MODEL, 24)])}
