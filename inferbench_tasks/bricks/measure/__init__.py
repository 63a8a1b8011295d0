"""Bricks and whole models timed beside each other: a process of its own (``child.py``), in rounds, against references.

``session.py`` starts it, ``bound.py`` is one network in it, ``levels.py`` judges its rounds.
"""
