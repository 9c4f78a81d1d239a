"""Experiments: run, store and resume tasks; summarise, draw and report results with any columns."""
