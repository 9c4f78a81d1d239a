"""Compiled mathematics of the Industrial Benchmark; the compiler's stamp covers every file of this folder."""
