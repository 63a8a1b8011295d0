"""The named policies. A third party adds one through the entry point ``inferbench.policies``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferbench_tasks.registry import Registry
from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.decisions import Decision
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import Binding, Order, Params


@dataclass(frozen=True, slots=True)
class Policy:
    """A name and the parameters behind it."""

    name: str
    params: Params

    def new_index(self) -> Index:
        return Index(self.params)

    def decide(self, index: Index, now: float) -> list[Decision]:
        return decide(index, now, self.params)


PolicyFactory = Callable[[], Policy]


def _paper(name: str, binding: Binding, order: Order) -> Policy:
    return Policy(
        name, Params(binding, order, priorities=False, fair_tenants=False, deadlines=False, preempt=False)
    )


def rr_fcfs() -> Policy:
    """The paper's first baseline: nodes take turns, each first come, first served."""
    return _paper("rr_fcfs", "rr", "fcfs")


def rr_sjf() -> Policy:
    """The paper's second baseline: nodes take turns, each shortest job first."""
    return _paper("rr_sjf", "rr", "sjf")


def qa_fcfs() -> Policy:
    """First come, first served with queue-aware placement alone."""
    return _paper("qa_fcfs", "qa", "fcfs")


def qa_sjf() -> Policy:
    """The paper's scheduler (Algorithm 1): the shortest queue in expected seconds, then shortest job first."""
    return _paper("qa_sjf", "qa", "sjf")


def late_sjf() -> Policy:
    """Shortest job first over all devices: a job gets its device when one is free."""
    return Policy("late_sjf", Params(order="sjf", fair_tenants=False, deadlines=False, preempt=False))


def late_sjf_aged() -> Policy:
    """The default: late binding, lengths clipped and aged, fair to tenants, deadlines kept."""
    return Policy("late_sjf_aged", Params())


POLICIES: Registry[PolicyFactory] = Registry(
    "scheduling policy",
    "inferbench.policies",
    {
        name: f"inferbench_tasks.scheduling.policies:{name}"
        for name in ("rr_fcfs", "rr_sjf", "qa_fcfs", "qa_sjf", "late_sjf", "late_sjf_aged")
    },
)

DEFAULT_POLICY = "late_sjf_aged"
