"""The stages of ``kind: bricks``."""
