"""The objective of a submission: bounds on figures, each by the figure's own name.

Which side a bound is on follows from the figure: at least where more is better, at most otherwise. Every figure of the
table may be bounded, those that packages bring too. Names of earlier versions (``latency_p99_ms``) are read as today's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    create_model,
    model_serializer,
    model_validator,
)

from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES, SHIPPED
from inferbench_tasks.problem import FieldPath, did_you_mean

#: The share of requests that may fail unless an objective says another.
NO_ERRORS = 0.0


def current_name(name: str) -> str:
    """A figure's name of today for one that an earlier version had; any other text as it is."""
    figure = FIGURES.get(name)
    return figure.name if figure else name


def current_names(bounds: Any) -> Any:
    """A mapping of bounds under today's names; one that is given under two names keeps both, which is refused."""
    if not isinstance(bounds, dict):
        return bounds
    return {_free(name, bounds): value for name, value in bounds.items()}


def current_path(path: str) -> str:
    """A dotted path of a sweep, below ``slo`` under today's name."""
    section, _, name = path.partition(".")
    return f"slo.{current_name(name)}" if section == "slo" and name else path


def current_paths(group: Any) -> Any:
    """A mapping of a sweep's paths under today's names."""
    if not isinstance(group, dict):
        return group
    renamed = {path: current_path(path) if isinstance(path, str) else path for path in group}
    return {renamed[p] if renamed[p] == p or renamed[p] not in group else p: v for p, v in group.items()}


def current_field(path: FieldPath) -> FieldPath:
    """A place in a submission, below ``slo`` and in the sweep's paths under today's names."""
    if path[:1] == ("slo",) and len(path) > 1 and isinstance(path[1], str):
        return ("slo", current_name(path[1]), *path[2:])
    if path[:1] == ("sweep",):
        return tuple(current_path(part) if isinstance(part, str) else part for part in path)
    return path


def bound_type(figure: Figure) -> Any:
    """What a bound on it may be, as a type."""
    if figure.share:
        return Annotated[float, Field(ge=0, le=1)]
    return Annotated[float, Field(gt=0)] if figure in SHIPPED else float


#: Of an objective: more than there are figures.
MAX_BOUNDS = 200
PERCENTILES = ("p50", "p90", "p95", "p99", "p999")


def _free(name: Any, bounds: dict[Any, Any]) -> Any:
    today = current_name(name) if isinstance(name, str) else name
    return name if today != name and today in bounds else today


def _known(name: str) -> str:
    figure = FIGURES.get(name)
    if figure is None:
        hint = did_you_mean(name, FIGURES) or ";"
        raise ValueError(f"unknown key{hint} allowed: {', '.join(_bounded(FIGURES.values()))}")
    if figure.name != name:
        raise ValueError(f"another name of {figure.name}, which is given too; keep one of them")
    if figure.streamed:
        raise ValueError(
            f"{name} can't be bounded: only streamed tokens have it, and a submission's answers are whole"
        )
    if figure.better is None:
        raise ValueError(f"{name} can't be bounded: neither more nor less of it is better")
    return name


def _bounded(figures: Any) -> list[str]:
    return [figure.name for figure in figures if figure.better is not None and not figure.streamed]


#: What an objective says of single answers: no bounds on figures.
_OF_ANSWERS = ("each", "min_good_ratio")


class EachSpec(Spec):
    """What each answer of a language model has to keep to be good; failed requests are not."""

    ttft_ms: Annotated[float, Field(gt=0)] | None = None
    """To the first token, from the intended moment."""
    tpot_ms: Annotated[float, Field(gt=0)] | None = None
    """The time per token behind the first chunk."""
    latency_ms: Annotated[float, Field(gt=0)] | None = None
    """To the last token, from the intended moment."""


class Bounds(Spec):
    """The service-level objective: a bound for each figure that has to be kept, by the figure's name. It is the least
    where more is better, else the most. Figures of installed packages may stand here too (``inferbench metrics``);
    names of earlier versions (``latency_p99_ms``, ``min_throughput_rps``, ``max_error_ratio``) are read as today's.
    """

    model_config = ConfigDict(extra="allow")

    each: Annotated[
        EachSpec | None,
        Field(
            description="Of streamed tokens: what a good answer keeps; `good_ratio` and `goodput_rps` are by it."
        ),
    ] = None
    min_good_ratio: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="With `each`: the share of all requests that were due which has to be good.",
        ),
    ] = None
    __pydantic_extra__: dict[Annotated[str, AfterValidator(_known)], float]

    @model_validator(mode="before")
    @classmethod
    def _names_of_today(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MAX_BOUNDS:
            raise ValueError(f"{len(value):,} bounds; at most {MAX_BOUNDS} are allowed")
        return current_names(value)

    @model_validator(mode="after")
    def _good_and_how_many(self) -> Bounds:
        if (self.each is None) != (self.min_good_ratio is None):
            raise ValueError(
                "each says what a good answer is, min_good_ratio how many have to be good: give both"
            )
        if self.each is not None and not any(self.each.model_dump().values()):
            raise ValueError("each has no bound; give ttft_ms, tpot_ms or latency_ms")
        return self

    @model_serializer(mode="wrap")
    def _only_what_is_bounded(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    def bounds(self) -> dict[str, float]:
        """Figure -> bound, in the order of the table."""
        numbers = {
            **{name: getattr(self, name) for name in type(self).model_fields if name not in _OF_ANSWERS},
            **(self.model_extra or {}),
        }
        return {name: value for name, value in numbers.items() if value is not None}

    def bound(self, name: str) -> float | None:
        """The bound on that figure; None without one."""
        return self.bounds().get(name)

    def percentile_bounds_ms(self) -> dict[str, float]:
        """The bounds on percentiles of the latency, the lower first: name ("p99") -> ms."""
        bounds = self.bounds()
        return {name: bounds[f"{name}_ms"] for name in PERCENTILES if f"{name}_ms" in bounds}


def _field(figure: Figure) -> Any:
    side = "Lower" if figure.higher else "Upper"
    default = NO_ERRORS if figure.name == "error_ratio" else None
    return (bound_type(figure) | None, Field(default, description=f"{side} bound: {figure.meaning}."))


if TYPE_CHECKING:
    SloSpec = Bounds
else:
    #: ``Bounds`` with a field for each figure of the table.
    SloSpec = create_model(
        "SloSpec",
        __base__=Bounds,
        __doc__=Bounds.__doc__,
        __module__=__name__,
        **{figure.name: _field(figure) for figure in SHIPPED if figure.better and not figure.streamed},
    )
