"""What goes wrong with the language-model stand-in: the submission says it, the server does it, each result has it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from inferbench_tasks.contracts.spec import Count, Spec

#: What can be wrong with an answer; words of the server (``servers.llm_stand_in.pace.Fault``), but for ``stall``.
Wrong = Literal[
    "stall", "cut", "unfinished", "error_event", "bad_json", "bad_utf8", "role_only", "too_many",
    "http_429", "http_503",
]  # fmt: skip


class WrongAnswers(Spec):
    """Each `every`-th request that comes is answered wrongly, the first answer before the load and the warm-up's
    counted in.
    """

    kind: Wrong
    """`stall`: half of the chunks, a pause that is `stall_ms` longer than the others, and the rest; `cut`: half of
    them, then the connection breaks; `error_event`: half of them, then an event with an `error`; `unfinished`: no
    finish reason; `role_only`: no token; `too_many`: three tokens more than asked for; `bad_json`, `bad_utf8`: one
    chunk that can't be read; `http_429`, `http_503`: that status in place of a stream."""
    every: Annotated[int, Field(ge=2, le=1_000_000)]
    """2: each second request, and so on. Not 1: without one good answer no load begins."""
    stall_ms: Annotated[float, Field(gt=0, le=600_000)] | None = None
    """Of `stall`, and needed there."""

    @model_validator(mode="after")
    def _stalls_have_a_length(self) -> WrongAnswers:
        if self.kind == "stall" and self.stall_ms is None:
            raise ValueError("kind: stall needs stall_ms, the pause's length")
        if self.kind != "stall" and self.stall_ms is not None:
            raise ValueError(f"stall_ms is for kind: stall, not for {self.kind}; leave it out")
        return self


class StandInFaults(Spec):
    """Faults of the stand-in, each of which every result names. Requests are counted from the server's start: the one
    that it is asked before the load, and those of the warm-up, are among them.
    """

    loading_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    """From its start it answers 503 for so long, as a server whose model is loading. No load begins before that is
    over."""
    reloads_after_answers: Count | None = None
    """Once, after so many answers, it loads again: 503 for `loading_s`, to all that come then."""
    dies_after_answers: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    """With the last byte of so many answers it kills itself (SIGKILL), whatever else is under way."""
    answers: WrongAnswers | None = None
    """Answers that are wrong."""

    @model_validator(mode="after")
    def _something_goes_wrong(self) -> StandInFaults:
        if not self.given():
            raise ValueError("nothing goes wrong; name a fault, or leave faults out")
        if self.reloads_after_answers is not None and self.loading_s is None:
            raise ValueError("reloads_after_answers needs loading_s: for how long it then answers 503")
        return self

    def given(self) -> dict[str, Any]:
        """Those that were named, plain."""
        return self.model_dump(mode="json", exclude_none=True)

    def words(self) -> str:
        """All of them for people."""
        parts = []
        if self.loading_s is not None:
            again = self.reloads_after_answers
            once = "" if again is None else f", and again after {again} answers"
            parts.append(f"503 for {self.loading_s:g} s from its start{once}")
        if self.answers is not None:
            pause = "" if self.answers.stall_ms is None else f" of {self.answers.stall_ms:g} ms"
            parts.append(f"{self.answers.kind}{pause} in one of {self.answers.every} answers")
        if self.dies_after_answers is not None:
            parts.append(f"killed after {self.dies_after_answers} answers")
        return "; ".join(parts)
