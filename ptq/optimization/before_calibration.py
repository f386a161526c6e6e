"""Which rewrites of a model come before anything is observed, and hold for the given samples only?"""

from __future__ import annotations

from ptq.core.errors import UsageError
from ptq.core.plan import Plan
from ptq.data import Samples
from ptq.data.progress import Progress
from ptq.observers.calibration_file import Calibration
from ptq.optimization.equalization import equalize_channels
from ptq.optimization.outlier_splitting import split_outlier_channels
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.recipe import Recipe
from ptq.solver.solve import check_skipped_nodes


def optimize_before_calibration(
    name: str,
    prepared: PreparedModel,
    samples: Samples | None,
    recipe: Recipe,
    *,
    equalize: bool = True,
    split_outliers: bool = True,
    stats: Calibration | None = None,
    plan: Plan | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> tuple[PreparedModel, Recipe]:
    """The model with channels made alike between layers and outlying ones split off, where that gains.

    Args:
        name: What the model is called.
        prepared: It.
        samples: For calibration; without any it stays as it is.
        recipe: What will be asked; nodes that are added are left float in the one returned.
        equalize: Whether to make channels alike between layers.
        split_outliers: Whether to split channels off.
        stats: Statistics that will be used instead of gathered.
        plan: A plan that will be obeyed.
        threads: Threads for one operator; 0 is one a core.
        progress: Told how far it is.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
        UsageError: Nodes to skip that do not exist, or beside a plan.
    """
    check_skipped_nodes(prepared.graph, recipe.float_nodes)
    if plan is not None and recipe.float_nodes:
        raise UsageError("a plan says itself what stays float; give it without nodes to skip")
    if equalize or (plan is not None and plan.channel_factors):
        prepared = equalize_channels(
            name, prepared, samples, recipe,
            stats=stats, plan=plan, threads=threads, progress=progress,
        )  # fmt: skip
        recipe = recipe.with_float_nodes(prepared.float_nodes)
    if split_outliers:
        return split_outlier_channels(
            prepared, samples, recipe, stats=stats, plan=plan, threads=threads, progress=progress
        )
    return prepared, recipe
