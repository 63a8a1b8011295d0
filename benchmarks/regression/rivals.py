"""The rules to compare with, each as its project applies it: nights -> [(night, +1 slower or -1 faster)]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.regression.noise import Night
from inferbench_tasks.regression.base import SeriesKey, Session
from inferbench_tasks.regression.decide import Policy, decide

Alarm = tuple[int, int]
KEY = SeriesKey("benchmark", "0" * 64, "cpu", "p50_ms")


def ours(nights: list[Night], policy: Policy | None = None) -> list[Alarm]:
    """Our own rule: the changes that were confirmed."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    sessions = [
        Session(f"{i:04d}", start + timedelta(days=i), tuple(b), tuple(c)) for i, (b, c) in enumerate(nights)
    ]
    events = decide({KEY: sessions}, policy)[KEY].events
    return [(int(e.session), 1 if e.effect > 0 else -1) for e in events if e.kind == "confirmed"]


def fixed_7_percent(nights: list[Night]) -> list[Alarm]:
    """TorchBench: the night's median differs from the last accepted one's by more than 7%; then it is the new one.

    (torchbenchmark's regression detector: DELTA_THRESHOLD = 0.07 between two nightly runs.)
    """
    alarms, before = [], None
    for i, (_, candidate) in enumerate(nights):
        level = float(np.median(candidate))
        if before is not None and abs(level / before - 1) > 0.07:
            alarms.append((i, 1 if level > before else -1))
            before = level
        before = level if before is None else before
    return alarms


def mann_whitney(nights: list[Night]) -> list[Alarm]:
    """asv continuous: both versions in turns, a difference at p < 0.002; after an alarm that is the new level."""
    alarms, level = [], 1.0
    for i, (baseline, candidate) in enumerate(nights):
        now = candidate / level
        if mannwhitneyu(baseline, now, alternative="two-sided").pvalue < 0.002:
            ratio = float(np.median(now) / np.median(baseline))
            alarms.append((i, 1 if ratio > 1 else -1))
            level *= ratio
    return alarms


def otava(nights: list[Night]) -> list[Alarm]:
    """Apache Otava 0.8 with its defaults (window 50, p < 0.001), run every night over the nights' means.

    A change point is an alarm in the night in which it is first found (within two nights counts as the same).
    """
    from otava.analysis import compute_change_points

    means = [float(np.mean(candidate)) for _, candidate in nights]
    alarms: list[Alarm] = []
    points_before: list[int] = []
    for i in range(4, len(means) + 1):
        points, _ = compute_change_points(means[:i], window_len=50, max_pvalue=0.001)
        for point in points:
            if all(abs(point.index - other) > 2 for other in points_before):
                points_before.append(point.index)
                alarms.append((i - 1, 1 if point.stats.mean_2 > point.stats.mean_1 else -1))
    return alarms


RULES = {
    "ours": ours,
    "fixed 7% (TorchBench)": fixed_7_percent,
    "Mann-Whitney (asv)": mann_whitney,
    "E-Divisive (Otava)": otava,
}
