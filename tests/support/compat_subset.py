"""The tests that run with the lowest dependencies."""

from __future__ import annotations

COMPAT_FILES = frozenset(
    """
    core/test_plan.py kernels/test_conv.py kernels/test_real_functions.py model/test_crash_guard.py
    model/test_external_data.py model/test_operator_versions.py model/test_save.py model/test_session.py
    observers/test_calibration_file.py observers/test_stats.py data/formats/test_arrays.py data/formats/test_images.py
    rewrite/emit/test_to_qdq.py rewrite/emit/test_to_qlinear.py rewrite/prepare/test_shape_inference.py
    executor/test_executor.py executor/arithmetics/test_arithmetics.py
    executor/arithmetics/test_ort_softmax.py solver/test_solve.py solver/partition/test_min_cut.py
    solver/partition/test_partition.py calibration/test_collect.py evaluation/test_evaluate.py
    evaluation/test_intervals.py verification/test_golden.py verification/test_verify.py
    optimization/test_range_search.py optimization/equalization/test_candidates.py cli/test_cli_commands.py
    api/test_api.py data/sources/test_packages.py data/formats/test_texts.py test_results.py page/test_layout.py
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Files of the subset that runs with the lowest dependencies: of each package, what touches a library."""
