"""Devices of a kind beside each other: which of them is slower than its kind."""
