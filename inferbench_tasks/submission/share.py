"""``share:`` several models on one device: each alone, then all together."""

from __future__ import annotations

import copy
from typing import Annotated, Any

from pydantic import Field

from inferbench_tasks.contracts.spec import Slug, Spec

Cores = Annotated[tuple[Annotated[int, Field(ge=0, le=4095)], ...], Field(strict=False, max_length=1024)]
Percentage = Annotated[int, Field(ge=1, le=100)]
#: The sections that a neighbour may have of its own; those that it leaves out are the submission's.
OWN = ("model", "requests", "convert", "serve", "load")


class NeighbourSpec(Spec):
    """Another model on the same device, under its own load at the same time."""

    model: dict[str, Any]
    """As ``model`` of a submission."""
    requests: dict[str, Any] | None = None
    """As ``requests`` of a submission; this submission's unless given."""
    convert: dict[str, Any] | None = None
    """As ``convert`` of a submission; this submission's unless given."""
    serve: dict[str, Any] | None = None
    """As ``serve`` of a submission; this submission's unless given."""
    load: dict[str, Any] | None = None
    """As ``load`` of a submission; this submission's unless given."""
    cores: Cores = ()
    """The cores that its server may use; all unless given."""
    percentage: Percentage | None = None
    """``mps``: the most of the GPU's threads that its server may use, percent."""


class ShareSpec(Spec):
    """Every model is measured alone and beside all the others, with the same placement."""

    method: Slug = "colocate"
    """``colocate``: the servers run side by side, on the cores that each is given; ``mps``: NVIDIA's Multi-Process
    Service shares a GPU between them."""
    cores: Cores = ()
    """The cores that this model's server may use; all unless given."""
    percentage: Percentage | None = None
    """``mps``: the most of the GPU's threads that this model's server may use, percent."""
    beside: Annotated[tuple[NeighbourSpec, ...], Field(strict=False, max_length=15)] = ()
    """The other models."""
    member: Annotated[int, Field(ge=0, le=15)] | None = None
    """Whose figures a job reports; set where a submission becomes jobs: 0 is the submission's own model."""


def members(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a submission with ``share``, as plain data: each member alone, then each beside the others."""
    share = data.get("share") or {}
    if not share.get("beside") or share.get("member") is not None:
        return [data]  # one job of a share, to be run again
    sections = {name: data[name] for name in OWN if name in data}
    # Its cores are its own: a neighbour that names none may use all.
    own = sections | {name: share[name] for name in ("cores", "percentage") if name in share}
    everyone = [own, *share["beside"]]
    jobs = []
    for together in (False, True):
        for at, member in enumerate(everyone):
            job = copy.deepcopy(data)
            job |= {name: copy.deepcopy(member[name]) for name in OWN if member.get(name) is not None}
            job["share"] = {"method": share.get("method", "colocate"), "member": at}
            job["share"] |= {k: member[k] for k in ("cores", "percentage") if member.get(k) is not None}
            if together:
                # A neighbour's sections that it does not give are the submission's, whoever is measured.
                others = [copy.deepcopy({**sections, **m}) for i, m in enumerate(everyone) if i != at]
                job["share"]["beside"] = others
            jobs.append(job)
    return jobs
