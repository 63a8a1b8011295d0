"""The report of ``kind: bricks``."""
