"""What `habnn benchmark` measures: one module per section, with a function measure(repeats) -> list of Result."""
