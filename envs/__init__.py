"""Industrial Benchmark environments for Gymnasium."""
