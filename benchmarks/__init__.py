"""Performance questions, one module each: it prints a table and writes JSON under ``benchmarks/results``."""
