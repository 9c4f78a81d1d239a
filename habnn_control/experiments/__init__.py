"""Experiments: run tasks, store and resume them, summarise, draw and report, for any task and any columns."""
