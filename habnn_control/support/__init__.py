"""Utilities shared by all packages: files, command lines, names, optional packages, compilation."""
