"""Compiled equations of the Industrial Benchmark; a change of any file in this folder recompiles all kernels."""
