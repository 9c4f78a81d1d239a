"""Compiled and private mathematics of the network; the compiler's stamp covers every file of this folder."""
