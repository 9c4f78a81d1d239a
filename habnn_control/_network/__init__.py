"""Private mathematics of the network; a change of any file in this folder recompiles all its kernels."""
