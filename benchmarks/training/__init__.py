"""Measurements of the measuring of trainings."""
