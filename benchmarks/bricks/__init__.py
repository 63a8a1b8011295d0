"""Predictions from bricks against the models themselves."""
