"""What a page's form was filled with, as terms of a query; and what its fields suggest."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.problems import FieldError
from inferbench_tasks.provider.ui.short_lived import short_lived

Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True)
class Given:
    """The fields that all lists share, as they were typed."""

    model: str = ""
    backend: str = ""
    device: str = ""
    user: str = ""
    since: str = ""
    until: str = ""
    verdict: str = ""
    q: str = ""

    def terms(self) -> list[str]:
        """The query that they make; raises FieldError."""
        conditions = [
            f"{name}={value.strip()}"
            for name in ("model", "backend", "user", "since", "until", "verdict")
            if (value := getattr(self, name)).strip()
        ]
        if device := self.device.strip():
            conditions.append(f"device={device}" if device in ("cpu", "gpu") else f"device_name=*{device}*")
        try:
            return conditions + shlex.split(self.q)
        except ValueError as error:
            raise FieldError(
                "q", f"{self.q[:60]!r} is not understood: {error} (quotes must be closed)"
            ) from error

    def joined(self) -> str:
        """The same as one text; "" where they are wrong."""
        try:
            return shlex.join(self.terms())
        except FieldError:
            return ""

    @property
    def filled(self) -> bool:
        """Whether anything was asked for."""
        return any(value.strip() for value in self.as_dict().values())

    def as_dict(self) -> dict[str, str]:
        """For links to the next page."""
        return dict(self.__dict__)


def _given(
    model: Text = "",
    backend: Text = "",
    device: Text = "",
    user: Text = "",
    since: Text = "",
    until: Text = "",
    verdict: Text = "",
    q: Annotated[str, Query(max_length=4000)] = "",
) -> Given:
    return Given(model, backend, device, user, since, until, verdict, q)


Filters = Annotated[Given, Depends(_given)]


@short_lived
def suggestions(db: PerfDB) -> dict[str, list[str]]:
    """Models, backends and devices that there are results of."""
    return {
        "models": _distinct(db, "model.name"),
        "backends": _distinct(db, "backend.kind"),
        "devices": ["cpu", "gpu"],
    }


def _distinct(db: PerfDB, path: str) -> list[str]:
    def ask() -> list[Any]:
        return list(db.collection("results").distinct(path))

    return sorted(str(value) for value in db.retrying(ask, "asking what there is") if value is not None)[:500]
