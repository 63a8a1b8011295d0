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
    batch_size: Annotated[int, Field(ge=1, le=4096)] | Literal["load"] | None = None
    """Samples in each request that is asked one by one, neighbours of the data; ``load``: as many as in those of the
    load. If null one, whatever the load has, or as many as the model takes in each call. With it samples are asked
    again where there are fewer than the requests take; layers, FLOPs and bytes are those of the batch."""
    deepest: Literal["model", "framework", "layer", "library"] | None = None
    """The deepest level: parts of a request in the server, runs of the runtime, its layers, the primitives that these
    run; down to layers if null."""

    def samples_per_request(self, of_load: int, of_model: int | None = None) -> int:
        """In each traced request. ``of_load``: in those of the job's load; ``of_model``: what the model takes in each
        call, None of one that takes any."""
        if self.batch_size == "load" or self.one_in is not None:
            return of_load
        return self.batch_size or of_model or 1
