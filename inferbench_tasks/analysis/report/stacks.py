"""What makes the difference between the stacks of a report: traced runs of one model beside the fastest of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from inferbench_tasks.analysis.charts.style import PALETTE, Chart, axis, chart, text, wrapped
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.stack.about import about_of
from inferbench_tasks.analysis.stack.difference import BETWEEN, Difference, Row, difference
from inferbench_tasks.analysis.stack.one_precision import called_alike
from inferbench_tasks.analysis.stack.profile import Profile, profile_of
from inferbench_tasks.analysis.stack.words import not_valid, sentences, unlike
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.tracing.batches import traced_batch_size
from inferbench_tasks.tracing.profiled import without_deeper
from inferbench_tasks.tracing.spans import spans_of

#: So many traced runs are read, so many comparisons are shown, and so many rows of each by themselves.
_READ, _COMPARISONS, _ROWS = 12, 4, 12


def differences(views: Sequence[RunView]) -> list[Difference]:
    """Each traced run of a model by the fastest of that model and batch size; [] where there is nothing to compare.

    Of the first ``_READ`` traced runs; ``words`` and ``charts`` show the first ``_COMPARISONS`` of these.
    """
    by_model: dict[tuple[str, int | None], list[Profile]] = defaultdict(list)
    for view in _traced(views)[:_READ]:
        profile = _profile(view)
        if profile is not None and view.result is not None:
            by_model[view.result.model.name, traced_batch_size(view.result)].append(profile)
    found = []
    for profiles in by_model.values():
        first, *others = sorted(called_alike(profiles), key=lambda profile: profile.framework_ms)
        found += [difference(first, other) for other in others]
    return found


def words(found: Sequence[Difference], views: Sequence[RunView] = ()) -> str:
    """What each that is shown says, what else differs, which of the runs don't count, once, and what is left out.

    ``views``: the runs that ``found`` is of.
    """
    shown = found[:_COMPARISONS]
    said = [sentence for each in shown for sentence in (*sentences(each), *unlike(each))]
    said += dict.fromkeys(text for each in shown for text in not_valid(each))
    if len(found) > len(shown):
        said.append(
            f"{len(shown)} of {len(found)} comparisons are shown: those of each model that take least more come first. "
            "`inferbench trace compare` makes the others."
        )
    if found and (traced := len(_traced(views))) > _READ:
        said.append(f"The first {_READ} of {traced} traced runs are compared.")
    return " ".join(said)


def charts(found: Sequence[Difference]) -> list[Chart]:
    """Of each that is shown the rows that differ most, and all others together, so that the bars add up."""
    return [_chart(each) for each in found[:_COMPARISONS]]


def _traced(views: Sequence[RunView]) -> list[RunView]:
    return [view for view in views if view.spans is not None]


def _profile(view: RunView) -> Profile | None:
    """None where there is none, or where it can't be read: the report's note says so of records, and this of spans."""
    if view.spans is None:
        return None
    try:
        about = about_of(view.result) if view.result is not None else {}
        about |= {"verdict": view.verdict and str(view.verdict)}
        profile = profile_of(without_deeper(spans_of(view.spans())), view.label, view.run_id, **about)
    except (InputError, PerfDBError):
        return None
    return None if profile is None else replace(profile, label=view.label)


def _chart(found: Difference) -> Chart:
    shown, rest = found.rows[:_ROWS], found.rows[_ROWS:]
    names = [_name(row) for row in shown]
    values = [row.difference_ms for row in shown]
    if rest:
        names.append(f"{len(rest)} others")
        values.append(sum(row.difference_ms for row in rest))
    colours = [PALETTE[1] if value > 0 else PALETTE[2] for value in values]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [f"{at}. {text(name)}" for at, name in enumerate(names, 1)],
        "x": values,
        "marker": {"color": colours},
        "hovertemplate": "%{y}<br>%{x:.4g} ms<extra></extra>",
    }
    ticks = [wrapped(f"{at}. {name}", 38, 2) for at, name in enumerate(names, 1)]
    return chart(
        [bars],
        title=f"What {found.right.label} takes more than {found.left.label}: {found.difference_ms:.3g} ms",
        xaxis=axis("time more, ms", zeroline=True),
        yaxis=axis("", autorange="reversed", tickvals=bars["y"], ticktext=ticks),
        showlegend=False,
        height=120 + 34 * len(names),
    )


def _name(row: Row) -> str:
    return BETWEEN if row.what == BETWEEN else " + ".join(row.left or row.right)
