"""Tensor statistics, and the range methods that choose a quantization range from them.

Statistics of a tensor:

stats: `TensorStats`: extremes, distinct values or histogram, NaN and infinities of one tensor
distinct_values: counts of a tensor's distinct values, while there are at most 1024
bfloat16_histogram: counts of float32 values by their upper 16 bits
key_counter: counts of small integers, for the two above
channel_range: minimum and maximum of each channel
range_cache: ranges already chosen from one tensor's statistics
channel_sums: exact sums, and so means, of each channel
channel_spread: extremes and energy of each channel, for equalization
channel_values: some values of each channel, from which the statistics with other factors follow
covariance: exact second moments of the inputs of a weighted sum, for GPTQ
input_statistics: covariances and mean shifts of the inputs of all layers with weights
kept_inputs: inputs of a few layers on samples, kept for a later stage
input_quantiles: values of the inputs over the calibration samples
sample_prefixes: short digests of the samples that statistics count
sample_listing: which shards of a listing of samples statistics count
sample_identity: which samples statistics count, and which versions and processor counted them
npy_header: the header of an .npy file
npz_bytes: named arrays as the bytes of an .npz, and whether two have equal ones
calibration_file: `Calibration`: the statistics of a whole graph, and its file

Range methods, from statistics to a range:

histogram_cells: statistics as counts on intervals of real numbers, the form that all methods read
observer: `Observer`: the type of a range method
minmax: all values
percentile: p percent of the values
kl: least Kullback-Leibler divergence (TensorRT entropy calibration)
mse: least mean squared quantization error

From a range to integers:

qparams: scale and zero point of a range
quantization_error: rounding error, clipping error and SQNR of a scale and zero point
input_means: mean of each channel, and what quantization adds to it, for bias correction
attention_mask: whether a tensor carries an additive attention mask

Further files:

array_counts: zeros, extremes and cell counts of an array, in one pass through chunks that fit the cache
keep_limit: how many samples statistics keep: a number of samples, or a number of bytes
kept_samples: some samples that are kept in the statistics, for what ranges alone cannot decide
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ptq.core.option_checks import require_choice
from ptq.observers.kl import kl
from ptq.observers.minmax import minmax
from ptq.observers.mse import mse
from ptq.observers.observer import CachedObserver, Observer
from ptq.observers.percentile import percentile
from ptq.observers.stats import TensorStats

_DEFAULTS = {"minmax": minmax, "percentile": percentile(), "kl": kl(), "mse": mse}
OBSERVERS: Mapping[str, Observer] = MappingProxyType(
    {name: CachedObserver(name, observer) for name, observer in _DEFAULTS.items()}
)
"""Every range method with its default parameters, by name."""


def get_observer(name: str) -> Observer:
    """The range method of that name.

    Raises:
        UsageError: There is no method of that name.
    """
    require_choice("method", name, OBSERVERS)
    return OBSERVERS[name]


__all__ = [
    "OBSERVERS",
    "Observer",
    "TensorStats",
    "get_observer",
    "kl",
    "minmax",
    "mse",
    "percentile",
]
