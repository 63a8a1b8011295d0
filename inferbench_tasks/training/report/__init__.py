"""The report of an invocation of ``kind: training``."""
