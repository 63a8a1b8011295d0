"""Arrival processes: when each request is meant to leave. One file per ``kind``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from inferbench_tasks.contracts.spec import Spec
from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import Registry, derived

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

ARRIVALS: Registry[type[ArrivalProcess]] = Registry(
    "arrival process",
    "inferbench.arrivals",
    {
        "constant": "inferbench_tasks.arrivals.constant:Constant",
        "poisson": "inferbench_tasks.arrivals.poisson:Poisson",
        "gamma": "inferbench_tasks.arrivals.gamma:Gamma",
        "spike": "inferbench_tasks.arrivals.spike:Spike",
        "ramp": "inferbench_tasks.arrivals.ramp:Ramp",
        "diurnal": "inferbench_tasks.arrivals.diurnal:Diurnal",
        "trace": "inferbench_tasks.arrivals.trace:Trace",
        "closed_loop": "inferbench_tasks.arrivals.closed_loop:ClosedLoop",
        "single_stream": "inferbench_tasks.arrivals.single_stream:SingleStream",
        "multi_stream": "inferbench_tasks.arrivals.multi_stream:MultiStream",
        "server": "inferbench_tasks.arrivals.server:Server",
        "offline": "inferbench_tasks.arrivals.offline:Offline",
        "max_rate": "inferbench_tasks.arrivals.max_rate:MaxRate",
    },
)

#: The longest schedule: 400 MB of offsets.
MAX_ARRIVALS = 50_000_000


class ArrivalProcess(Spec):
    """The ``arrivals:`` of a load; a subclass per kind with its parameters.

    ``loop`` says what drives the load: a rate ("open", see ``offsets_ns``) or a concurrency ("closed": the kinds
    that derive from ``arrivals.closed.ClosedProcess``, and only those).
    ``paced`` is False where all requests are handed over at once, so that lateness means nothing;
    ``stationary`` is False where the load itself changes with time, so that no steady state is to be expected.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: str
    loop: ClassVar[Literal["open", "closed"]] = "open"
    paced: ClassVar[bool] = True
    stationary: ClassVar[bool] = True

    def offsets_ns(self, duration_s: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """Intended send times in [0, duration_s), ns after the load starts, ascending, int64.

        The same generator state gives the same offsets. Closed-loop kinds and ``max_rate`` have none.
        """
        raise TypeError(f"{self.kind} is driven by a concurrency, not by a schedule")

    def mean_rate_rps(self, duration_s: float) -> float | None:
        """The expected mean rate over the duration; None for a closed loop, and where the rate is looked for."""
        return None

    def lasts_s(self, duration_s: float) -> float:
        """How long a load of that length really has arrivals: less where they come to an end by themselves."""
        return duration_s

    def samples_per_request(self, batch_size: int) -> int:
        """Samples in one request, where the load asks for ``batch_size``."""
        return batch_size

    def warmup(self) -> ArrivalProcess:
        """What to warm up with: the state in which the measured part begins, without its events."""
        return self

    def bind(self, base_dir: Path) -> ArrivalProcess:
        """The process ready to draw from: reads the files that it needs, below ``base_dir``.

        To be called before ``offsets_ns``, by who may touch files; InputError if a file is wrong.
        """
        return self

    def check(self, duration_s: float) -> None:
        """ValueError where the parameters make no sense for a load of that length; touches no file."""
        rate_rps = self.mean_rate_rps(duration_s)
        if rate_rps is None:
            return
        expected = rate_rps * duration_s
        if expected > MAX_ARRIVALS:
            raise ValueError(
                f"{expected:,.0f} requests in {duration_s:g} s are more than one load can hold ({MAX_ARRIVALS:,}); "
                "lower the rate or the duration"
            )
        if expected < 1:
            raise ValueError(
                f"{expected:g} requests are expected in {duration_s:g} s; raise the rate or the duration"
            )


@cache
def usable() -> Mapping[str, type[ArrivalProcess]]:
    """The kinds that can be had. Why a package's can't is said once, in the log: no other load is refused for it."""
    kinds = {}
    for kind in ARRIVALS:
        try:
            kinds[kind] = ARRIVALS.told(kind, lambda process: derived(process, ArrivalProcess))
        except InputError as error:
            log.warning("%s", error)
    return kinds


class _ByKind:
    """The value's ``kind`` chooses the class, plugins included."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {kind: handler.generate_schema(process) for kind, process in usable().items()}
        return core_schema.tagged_union_schema(choices, discriminator="kind")


ArrivalsSpec = Annotated[ArrivalProcess, _ByKind()]
Rate = Annotated[float, Field(gt=0, le=10_000_000)]
