"""Traces from a seed. Lengths are in minutes below and in seconds in the trace; k devices, load rho.

| family | what |
|---|---|
| A1 A2 A3 A4 | a batch of 1000, k 16: uniform 1-60, exponential, bimodal (70% 1, 30% 30), log-normal |
| B1 B2 B3 B4 | Poisson arrivals, k 16: uniform rho .8, exponential .9, bimodal .8, log-normal .9 |
| C1 | log-normal, rho .85, k 32 of four device types, 60% of the jobs pinned to one of them |
| D1 | a steady load of four tenants (rho .6), k 16; after 2 h a fifth dumps 600 short jobs |
| E1 | interactive jobs (exponential) at rho .6, k 16, and a batch of low priority with a deadline 8 h later |
| F1 | gangs: 1, 2, 4 or 8 devices of one node, rho .85, four nodes of 8 |
| G1 | recurring specs: 200 specs, declarations wrong per spec, runs vary by 10%, rho .95, k 16 |

Arrivals: exponential gaps of mean ``E[length * devices] / (rho * k)``. Estimates: ``length * exp(sigma * z)``.
The log-normal has median 5 and shape 1.4, a Gini coefficient of erf(1.4 / 2) = .68.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.trace import Trace, TraceJob, cluster

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Lengths = Callable[[int, np.random.Generator], NDArray[np.float64]]

MINUTE_S = 60.0
ANY = frozenset({"any"})


def uniform(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Lengths in minutes, uniform between 1 and 60; their Gini coefficient is about 1/3."""
    return rng.uniform(1.0, 60.0, n)


def exponential(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Lengths in minutes, exponential with a mean of 15; their Gini coefficient is 1/2."""
    return rng.exponential(15.0, n) + 0.01


def bimodal(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Minutes: 70% take 1, 30% take 30."""
    import numpy as np

    return np.where(rng.random(n) < 0.7, 1.0, 30.0)


def lognormal(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Minutes, median 5, shape 1.4: a heavy tail."""
    return rng.lognormal(1.6094379124341003, 1.4, n)


def pareto(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Minutes from 2 on, tail index 1.8, cut at 10 h: heavier than the log-normal."""
    import numpy as np

    return np.minimum(2.0 * (1.0 + rng.pareto(1.8, n)), 600.0)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a generator is asked for; None: as the table says."""

    seed: int
    sigma: float = 0.5
    jobs: int | None = None
    wrong_ratio: float = 0.0
    """This share of the estimates is wrong by a factor of 10, up or down."""


def batch(lengths: Lengths, recipe: Recipe, *, devices: str = "16", jobs: int = 1000) -> Trace:
    """All jobs are submitted at second 0."""
    import numpy as np

    rng = np.random.default_rng(recipe.seed)
    actual_s = lengths(recipe.jobs or jobs, rng) * MINUTE_S
    return _trace("batch", np.zeros(len(actual_s)), actual_s, recipe, rng, devices)


def arrivals(lengths: Lengths, rho: float, recipe: Recipe, *, devices: str = "16", jobs: int = 3000) -> Trace:
    """The jobs are submitted by a Poisson process."""
    import numpy as np

    rng = np.random.default_rng(recipe.seed)
    actual_s = lengths(recipe.jobs or jobs, rng) * MINUTE_S
    k = sum(node.n_devices for node in cluster(devices))
    submit_s = np.cumsum(rng.exponential(float(actual_s.mean()) / (rho * k), len(actual_s)))
    return _trace("arrivals", submit_s, actual_s, recipe, rng, devices)


def typed(lengths: Lengths, rho: float, recipe: Recipe, *, jobs: int = 4000) -> Trace:
    """C1: four types of 8 devices; 60% of the jobs are pinned to one, the others take any."""
    import numpy as np

    kinds = ("g1", "g2", "g3", "g4")
    trace = arrivals(lengths, rho, recipe, devices=",".join(f"{kind}=8" for kind in kinds), jobs=jobs)
    rng = np.random.default_rng([recipe.seed, 1])
    everything = frozenset(kinds)
    pins = [frozenset({str(rng.choice(kinds))}) if rng.random() < 0.6 else everything for _ in trace.jobs]
    return _change(trace, [{"device_types": pin} for pin in pins])


def tenant_dump(recipe: Recipe, *, lengths: Lengths = lognormal, rho: float = 0.6, dump: int = 600) -> Trace:
    """D1: tenants t0-t3 share a steady load; after 2 h tenant ``dump`` submits many jobs of 1-3 minutes at once."""
    import numpy as np

    base = arrivals(lengths, rho, recipe, jobs=600)
    rng = np.random.default_rng([recipe.seed, 2])
    base = _change(base, [{"tenant": f"t{rng.integers(4)}"} for _ in base.jobs])
    actual_s = rng.uniform(1.0, 3.0, dump) * MINUTE_S
    est_s = actual_s * np.exp(recipe.sigma * rng.standard_normal(dump))
    extra = tuple(
        TraceJob(_spec(f"dump-{i:05d}", 7200.0, float(e), tenant="dump"), float(a))
        for i, (a, e) in enumerate(zip(actual_s, est_s, strict=True))
    )
    return _sorted(replace(base, jobs=base.jobs + extra))


def nightly(recipe: Recipe, *, lengths: Lengths = exponential, rho: float = 0.6, fill: float = 0.9) -> Trace:
    """E1: interactive jobs for 10 h; at hour 1 a batch of low priority, due 8 h later.

    The batch's work is ``fill`` of what the interactive jobs leave free until its deadline.
    """
    import numpy as np

    rng = np.random.default_rng([recipe.seed, 3])
    base = arrivals(lengths, rho, replace(recipe, jobs=recipe.jobs or _jobs_in(10.0, lengths, rho)))
    spare_s = fill * (1 - rho) * 16 * 8 * 3600.0
    actual_s = rng.uniform(5.0, 20.0, round(spare_s / (12.5 * MINUTE_S))) * MINUTE_S
    est_s = actual_s * np.exp(recipe.sigma * rng.standard_normal(len(actual_s)))
    extra = tuple(
        TraceJob(
            replace(
                _spec(f"night-{i:05d}", 3600.0, float(e), tenant="nightly"),
                priority=-10,
                deadline_s=9 * 3600.0,
            ),
            float(a),
        )
        for i, (a, e) in enumerate(zip(actual_s, est_s, strict=True))
    )
    return _sorted(replace(base, jobs=base.jobs + extra))


def _jobs_in(hours: float, lengths: Lengths, rho: float) -> int:
    """How many jobs load 16 devices by rho for that long."""
    import numpy as np

    mean_min = float(lengths(20_000, np.random.default_rng(0)).mean())
    return round(hours * 60.0 * 16 * rho / mean_min)


def gangs(recipe: Recipe, *, lengths: Lengths = lognormal, rho: float = 0.85, jobs: int = 2000) -> Trace:
    """F1: 60% need 1 device, 20% two, 12% four, 8% eight of one node."""
    import numpy as np

    rng = np.random.default_rng([recipe.seed, 4])
    count = recipe.jobs or jobs
    sizes = rng.choice([1, 2, 4, 8], count, p=[0.6, 0.2, 0.12, 0.08])
    actual_s = lengths(count, rng) * MINUTE_S
    gap_s = float((actual_s * sizes).mean()) / (rho * 32)
    trace = _trace("gangs", np.cumsum(rng.exponential(gap_s, count)), actual_s, recipe, rng, "4x8")
    return _change(trace, [{"n_devices": int(size)} for size in sizes])


def recurring(recipe: Recipe, *, rho: float = 0.95, specs: int = 200, jobs: int = 4000) -> Trace:
    """G1: popular specs run often (Zipf); a declaration is wrong by the same factor in every run of its spec."""
    import numpy as np

    rng = np.random.default_rng([recipe.seed, 5])
    popularity = 1.0 / np.arange(1, specs + 1)
    picks = rng.choice(specs, recipe.jobs or jobs, p=popularity / popularity.sum())
    typical_s = lognormal(specs, rng) * MINUTE_S
    declared_s = typical_s * 0.7 * np.exp(recipe.sigma * rng.standard_normal(specs))
    actual_s = typical_s[picks] * np.exp(0.1 * rng.standard_normal(len(picks)))
    submit_s = np.cumsum(rng.exponential(float(actual_s.mean()) / (rho * 16), len(picks)))
    trace = _trace("recurring", submit_s, actual_s, recipe, rng, "16")
    return _change(trace, [{"spec_hash": f"spec-{c}", "est_s": float(declared_s[c])} for c in picks])


GENERATORS: dict[str, Callable[[Recipe], Trace]] = {
    "A1": lambda r: batch(uniform, r),
    "A2": lambda r: batch(exponential, r),
    "A3": lambda r: batch(bimodal, r),
    "A4": lambda r: batch(lognormal, r),
    "B1": lambda r: arrivals(uniform, 0.8, r),
    "B2": lambda r: arrivals(exponential, 0.9, r),
    "B3": lambda r: arrivals(bimodal, 0.8, r),
    "B4": lambda r: arrivals(lognormal, 0.9, r),
    "C1": lambda r: typed(lognormal, 0.85, r),
    "D1": tenant_dump,
    "E1": nightly,
    "F1": gangs,
    "G1": recurring,
}


def generate(name: str, recipe: Recipe) -> Trace:
    """The named trace. Raises InputError for an unknown name."""
    if name not in GENERATORS:
        raise InputError(f"Unknown trace {name!r}; known: {', '.join(GENERATORS)}, or the path of a file")
    return replace(GENERATORS[name](recipe), name=name)


def _spec(job_id: str, submit_s: float, est_s: float, tenant: str = "team") -> QueuedJob:
    return QueuedJob(job_id, tenant, job_id, submit_s, est_s, float("inf"), ANY)


def _trace(
    name: str,
    submit_s: NDArray[np.float64],
    actual_s: NDArray[np.float64],
    recipe: Recipe,
    rng: np.random.Generator,
    devices: str,
) -> Trace:
    import numpy as np

    est_s = actual_s * np.exp(recipe.sigma * rng.standard_normal(len(actual_s)))
    wrong = rng.random(len(actual_s)) < recipe.wrong_ratio
    est_s = np.where(wrong, est_s * np.where(rng.random(len(actual_s)) < 0.5, 10.0, 0.1), est_s)
    nodes = cluster(devices)
    types = frozenset(node.device_type for node in nodes)
    jobs = tuple(
        TraceJob(replace(_spec(f"job-{i:06d}", float(s), float(e)), device_types=types), float(a))
        for i, (s, a, e) in enumerate(zip(submit_s, actual_s, est_s, strict=True))
    )
    return Trace(name, jobs, nodes)


def _change(trace: Trace, changes: list[dict[str, object]]) -> Trace:
    jobs = zip(trace.jobs, changes, strict=True)
    return replace(
        trace,
        jobs=tuple(TraceJob(replace(j.spec, **change), j.actual_s) for j, change in jobs),  # type: ignore[arg-type]
    )


def _sorted(trace: Trace) -> Trace:
    return replace(trace, jobs=tuple(sorted(trace.jobs, key=lambda j: (j.spec.submit_s, j.spec.job_id))))
