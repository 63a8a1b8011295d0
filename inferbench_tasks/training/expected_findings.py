"""What is impossible about the speed that a training's submission expects."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.catalogue import find_hardware
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.training import expected
from inferbench_tasks.training.expected_spec import FactorSpec
from inferbench_tasks.training.job import TrainingJob


def findings(spec: TrainingJob) -> Iterator[Finding]:
    """Expectations that are not whole, and factors that lead in a circle among themselves."""
    of = spec.expected
    if of is None:
        return
    figures = [name for name in ("samples_per_s", "step_ms") if getattr(of, name) is not None]
    if figures and of.source is None:
        yield Finding((f"expected.{figures[0]}",), "give source too: who says that it should be so fast")
    if of.source is not None and not figures:
        yield Finding(
            ("expected.source",), "source is of samples_per_s or step_ms, of which neither is given"
        )
    if not figures and not of.factors and of.source is None:
        yield Finding(("expected",), "expects nothing: give samples_per_s, step_ms or factors")
    try:
        expected.check([speed_of(factor) for factor in of.factors], "the factors given")
    except InputError as error:
        yield Finding(("expected.factors",), str(error))


def circle_with_table(spec: TrainingJob) -> Iterator[Finding]:
    """Given factors that lead in a circle with those of ``expected_speed.yaml``, but not among themselves."""
    if spec.expected is None or any(finding.fields[0] == "expected.factors" for finding in findings(spec)):
        return
    try:
        expected.rows([speed_of(factor) for factor in spec.expected.factors])
    except InputError as error:
        yield Finding(("expected.factors",), str(error))


def unknown_devices(spec: TrainingJob) -> str | None:
    """That nobody may find a factor by its device's name, which no table has: a slip, or what a system calls it."""
    factors = spec.expected.factors if spec.expected else ()
    names = {name.rpartition("/")[2] for factor in factors for name in (factor.device, factor.of)}
    unknown = sorted(name for name in names if find_hardware(name) is None)
    if not unknown:
        return None
    return (
        f"expected.factors name {', '.join(unknown)}, which configs/hardware.yaml does not know: they hold of devices "
        "alone whose own name that is, letter by letter"
    )


def speed_of(factor: FactorSpec) -> expected.ExpectedSpeed:
    """A factor as a row of the table."""
    return expected.ExpectedSpeed.model_validate(factor.model_dump())
