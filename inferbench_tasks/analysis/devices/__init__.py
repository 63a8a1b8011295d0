"""Devices side by side over one model: how much faster each is, and what it costs."""
