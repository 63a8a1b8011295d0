"""What a report begins with: the answer in two sentences, and one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferbench_tasks.analysis.charts.style import Chart
    from inferbench_tasks.analysis.report.advice import Advice
    from inferbench_tasks.analysis.report.sections import Section

_SENTENCES = 2
#: How the sentence begins that names the configuration to use.
_CHOICE = "Use "


def in_short(advice: Advice) -> tuple[list[str], list[str]]:
    """The two sentences that a reader needs first, and all others in their order.

    The choice comes before what led to it, and behind it what makes it doubtful, which nobody may miss; the last one
    says of how many runs the objective is undecided, where some are.
    """
    choice = [text for text in advice.sentences if advice.best is not None and text.startswith(_CHOICE)]
    wanted = [*choice, *advice.doubts, *advice.sentences]
    first = list(dict.fromkeys(wanted))[: max(_SENTENCES, len(choice) + len(advice.doubts))]
    if advice.undecided:
        first = [*first[: max(_SENTENCES - 1, len(choice) + len(advice.doubts))], advice.undecided]
    return first, [text for text in advice.sentences if text not in first]


def picture_of(sections: Sequence[Section]) -> Chart | None:
    """The one chart that the runs are seen in: a section's own choice, the last section that makes one before others;
    without any the first chart that there is.
    """
    chosen = [section.picture for section in sections if section.picture is not None]
    return chosen[-1] if chosen else next((chart for section in sections for chart in section.charts), None)
