"""Folders of a run with requests that are no part of its load: what they recorded is no figure's source."""

from __future__ import annotations

#: Of the blocks ``evaluate`` and ``trace``; the first is removed behind each pass, a killed one leaves both.
EVALUATE, TRACE = "evaluate", "trace-load"
FOLDERS = (EVALUATE, TRACE)
