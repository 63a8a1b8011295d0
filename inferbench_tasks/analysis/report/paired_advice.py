"""What an interleaved sweep says: which configuration to use, by the pairs of its blocks, and how sure that is.

The same criteria in the same order as of single runs (``choose``), each decided by the interval over the blocks. So a
disturbed machine, of whose runs none is valid, still says which of two configurations needs less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.report import cpu_checks
from inferbench_tasks.analysis.report.loads import lengths_of, load_of, same_but_for_length
from inferbench_tasks.analysis.report.objective import objective_word
from inferbench_tasks.analysis.report.paired import NONE_SHOWN, Blocks, PairedRatio, configuration_label
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.offered import OF_ANY_LENGTH, but_for_length
from inferbench_tasks.submission.base import LEAST_BLOCKS

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: What a configuration is chosen by, the first that tells any apart; the highest percentile that all have follows.
CRITERIA = ("max_rate_samples_per_s", "throughput_samples_per_s", "cpu_ms_per_sample")
PERCENTILES = ("p99_ms", "p95_ms", "p90_ms", "p50_ms")


def sentences_of(blocks: Blocks) -> tuple[str | None, list[str]]:
    """The configuration to use, None where the pairs can't tell, and why, in sentences."""
    groups: dict[str, list[str]] = {}
    for key in blocks.configurations:
        if runs := blocks.runs(key):
            groups.setdefault(but_for_length(load_of(runs[0])), []).append(key)
    several = {load: keys for load, keys in groups.items() if len(keys) > 1}
    sentences = [*blocks.left_out, *_disturbed(blocks)]
    if not several:
        return None, [*sentences, "No two configurations were measured in turns under the same load."]
    choices: list[str | None] = []
    for load, keys in several.items():
        firsts = [blocks.runs(key)[0] for key in keys]
        if same_but_for_length(firsts):
            sentences.append(f"Under {load} they differ in how many samples there are alone: none to choose.")
            choices.append(None)
            continue
        keeping, judged = _keeping(blocks, keys)
        best, texts = choose(blocks, keeping or keys) if len(keeping) != 1 else (keeping[0], [])
        lead = [f"Under {load}:"] if len(several) > 1 else []
        sentences += [*lead, *judged, *texts]
        choices.append(best if keeping else None)
    return choices[0] if len(groups) == 1 else None, sentences


def choose(blocks: Blocks, keys: Sequence[str]) -> tuple[str | None, list[str]]:
    """The best of configurations that are all acceptable, each criterion deciding where its interval does."""
    tied = list(keys)
    sentences: list[str] = []
    criteria = _criteria(blocks, tied)
    comparisons = comparisons_of(len(criteria), len(tied))
    for name in criteria:
        leader = _leader(blocks, tied, name)
        ratios = {key: blocks.ratio(name, leader, key, comparisons) for key in tied if key != leader}
        worse = {key: r for key, r in ratios.items() if r is not None and r.verdict == "worse"}
        if not worse:
            continue
        texts = [_text(blocks, key, name, ratio) for key, ratio in worse.items()]
        if len(worse) == len(tied) - 1:
            why = f"Use {label(blocks, leader)}: measured in turns, {'; '.join(texts)}."
            doubt = cpu_checks.doubt(*_summaries(blocks)) if name == cpu_checks.CPU else []
            return leader, [*sentences, why, *doubt]
        sentences.append(f"Measured in turns, {'; '.join(texts)} as {label(blocks, leader)}.")
        tied = [key for key in tied if key not in worse]
    names = " and ".join(label(blocks, key) for key in tied)
    if not criteria:
        text = (
            f"The pairs can't tell {names} apart: nothing that they are chosen by is known of all of them in each of "
            f"their blocks, of which it takes {LEAST_BLOCKS} at least."
        )
        return None, [text]
    sentences.append(
        f"The pairs tell {names} apart by none of {', '.join(FIGURES[n].word for n in criteria)}."
    )
    sentences += [_undecided(blocks, tied, name, comparisons) for name in criteria[-1:]]
    return None, [text for text in sentences if text]


def comparisons_of(criteria: int, configurations: int) -> int:
    """How many intervals have to hold together: who leads is seen in the same runs, so any pair may be looked at."""
    return max(1, criteria * math.comb(configurations, 2))


def against_first(blocks: Blocks, views: Sequence[RunView]) -> list[str]:
    """Each figure in which a run's configuration differs from the first run's, by the pairs, in sentences."""
    keys = [key for view in views if (key := blocks.configuration(view)) is not None]
    if not keys:
        return []
    first, *others = keys
    sentences = [*blocks.left_out, *_disturbed(blocks)]
    others = [key for key in dict.fromkeys(others) if key != first]
    names = [name for name, row in FIGURES.items() if row.better is not None]
    known = [(name, key) for key in others for name in names if blocks.ratio(name, first, key) is not None]
    for key in others:
        # The intervals of all figures of all of them hold together.
        ratios = {name: blocks.ratio(name, first, key, len(known)) for name, of in known if of == key}
        texts = [
            f"{FIGURES[name].word} {ratio.ratio:.3g} times (95%: {ratio.ci95[0]:.3g} to {ratio.ci95[1]:.3g}), "
            f"{ratio.verdict}"
            for name, ratio in ratios.items()
            if ratio is not None and ratio.verdict in ("better", "worse")
        ]
        alike = sum(ratio is not None and ratio.verdict == NONE_SHOWN for ratio in ratios.values())
        none = f"no difference shown in {alike} figures" if alike else "no figure is compared"
        said = "; ".join(texts) or none
        sentences.append(f"In turns, {label(blocks, key)} against {label(blocks, first)}: {said}.")
    return sentences


def label(blocks: Blocks, key: str) -> str:
    """What a configuration is called."""
    return configuration_label(blocks.runs(key)[0])


def table(blocks: Blocks) -> list[dict[str, Any]]:
    """Each figure of each configuration against the first one's, as a table; [] without pairs."""
    keys = [key for key in blocks.configurations if blocks.runs(key)]
    names = [
        name for name, figure in FIGURES.items() if figure.better is not None and "report" in figure.views
    ]
    names += [name for name in CRITERIA if name not in names]
    found = {
        (name, key): ratio
        for name in names
        for key in keys[1:]
        if (ratio := blocks.ratio(name, keys[0], key)) is not None
    }
    rows = []
    for name, key in found:
        ratio = blocks.ratio(name, keys[0], key, len(found))
        assert ratio is not None
        low, high = ratio.ci95
        rows.append(
            [
                label(blocks, key),
                FIGURES[name].word,
                f"{ratio.ratio:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{ratio.blocks} ({ratio.disturbed})",
                f"not compared: {ratio.lacking} blocks lack it"
                if ratio.lacking
                else ratio.verdict or "not compared",
            ]
        )
    if not rows:
        return []
    title = f"In turns with {label(blocks, keys[0])}: the 95% intervals hold for all figures together"
    head = ["configuration", "figure", "ratio", "95% interval", "blocks (disturbed)", "difference"]
    return [{"title": title, "head": head, "rows": rows, "numbers": [2, 4]}]


def _criteria(blocks: Blocks, keys: Sequence[str]) -> list[str]:
    """Those that the blocks of all of them have, one percentile among them."""

    def known(name: str) -> bool:
        ratios = [blocks.ratio(name, one, other) for one, other in combinations(keys, 2)]
        return all(ratio is not None and not ratio.lacking for ratio in ratios)

    names = [name for name in CRITERIA if known(name)]
    if len(lengths_of(blocks.runs(key)[0] for key in keys)) > 1:
        return [name for name in names if name in OF_ANY_LENGTH]
    if CRITERIA[0] in names:  # where each searched for its own rate, what follows from the rate tells nothing
        return [CRITERIA[0]]
    return [*names, *[name for name in PERCENTILES if known(name)][:1]]


def _leader(blocks: Blocks, keys: Sequence[str], name: str) -> str:
    """The one with the best mean over the blocks."""
    ratios = {key: blocks.ratio(name, keys[0], key) for key in keys[1:]}
    sizes = {keys[0]: 0.0, **{key: math.log(ratio.ratio) for key, ratio in ratios.items() if ratio}}
    sign = -1 if FIGURES[name].higher else 1
    return min(sizes, key=lambda key: sign * sizes[key])


def _text(blocks: Blocks, key: str, name: str, ratio: PairedRatio) -> str:
    low, high = ratio.ci95
    return (
        f"{label(blocks, key)} has {ratio.ratio:.3g} times the {FIGURES[name].word} "
        f"(95%: {low:.3g} to {high:.3g}, {ratio.blocks} blocks)"
    )


def _undecided(blocks: Blocks, keys: Sequence[str], name: str, comparisons: int) -> str:
    ratio = blocks.ratio(name, keys[0], keys[1], comparisons)
    return f"{_text(blocks, keys[1], name, ratio)}; more blocks narrow that." if ratio else ""


def _summaries(blocks: Blocks) -> list[dict[str, Any]]:
    return [view.summary for key in blocks.configurations for view in blocks.runs(key)]


def _disturbed(blocks: Blocks) -> list[str]:
    views = [view for key in blocks.configurations for view in blocks.runs(key)]
    count = sum(view.bounds_only for view in views)
    if not count:
        return []
    return [
        f"{count} of the {len(views)} runs were disturbed; pairs count them, for a disturbance meets either side by "
        "chance: their ratios are of this machine as it was."
    ]


def _keeping(blocks: Blocks, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those that keep the objective in some block and miss it in none, and what is said of it; all without one.

    What a disturbed machine missed counts for nothing (``objective_word``).
    """
    words = {key: {objective_word(view) for view in blocks.runs(key)} for key in keys}
    if all(each == {None} for each in words.values()):
        return list(keys), []
    keeping = [key for key, each in words.items() if "met" in each and "missed" not in each]
    if len(keeping) == len(keys):
        return keeping, ["All of them keep the SLO."]
    if not keeping:
        return keeping, ["None of them is known to keep the SLO in any block and to miss it in none."]
    others = " and ".join(label(blocks, key) for key in keys if key not in keeping)
    text = f"Not known to keep the SLO: {others}."
    return keeping, [text + (f" Use {label(blocks, keeping[0])}, which does." if len(keeping) == 1 else "")]
