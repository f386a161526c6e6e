"""Recorded cases of other runtimes, run by the kernels."""
