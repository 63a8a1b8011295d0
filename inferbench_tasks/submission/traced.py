"""``trace``: where the time of a request goes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inferbench_tasks.contracts.spec import Spec

#: Requests that are traced one by one unless told otherwise.
USUAL_TRACED = 30


class TraceSpec(Spec):
    """The first samples of the requests are asked one by one, with the instruments of each level on in turns; or, with
    ``one_in``, a share of the requests of the load is traced."""

    requests: Annotated[int, Field(ge=1, le=1000)] = USUAL_TRACED
    """How many."""
    one_in: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The job's own load is sent to a server that tells of requests, and one in so many is traced, chosen by chance
    before it leaves, at the levels ``application`` and ``model``; without, requests are asked one by one."""
    rounds: Annotated[int, Field(ge=1, le=50)] = 3
    """How often each level has its turn, each time with a fresh server; what instruments cost is known by rounds."""
    deepest: Literal["model", "framework", "layer", "library"] | None = None
    """The deepest level: parts of a request in the server, runs of the runtime, its layers, the primitives that these
    run; down to layers if null."""
