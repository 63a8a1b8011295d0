"""Hostile inputs, and what becomes of them."""
