"""A run's verdict as a value: whether its figures count, and every reason why not.

Its text (``str(verdict)``) is for people, and for the indexes and queries of PerfDB. Whatever decides asks the value.
Results of versions that stored the text alone are read back by ``Verdict.read``, and only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from pydantic import model_validator

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict_texts import check_of, split_reasons

#: ``valid``: the figures count. ``disturbed``: the stimulus was right and the machine was not, so that they are bounds
#: of what a quiet machine gives. ``invalid``: there are figures, which don't count. ``failed``, ``cancelled``: a stage
#: failed, or its user stopped it, and there are none.
Kind = Literal["valid", "disturbed", "invalid", "failed", "cancelled"]
#: Each is worse than those before it.
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Of runs that came to their end: they have figures, whether these count or not.
_MEASURED: tuple[Kind, ...] = ("valid", "disturbed", "invalid")
#: Texts of these begin with the stage.
_STAGED: tuple[Kind, ...] = ("failed", "cancelled")
_FORM = re.compile(rf"valid|({'|'.join(kind for kind in KINDS if kind != 'valid')}): \S.*", re.DOTALL)
_STAGE_AND_CAUSE = re.compile(r"([\w.-]+), (.+)", re.DOTALL)
#: The group of checks whose failures are the machine's, not the run's: see ``metrics.interference``.
INTERFERENCE = "interference"
#: The environment variable that says what becomes of disturbances: see ``metrics.interference``.
MODE = "INFERBENCH_INTERFERENCE"
#: The kind of a run whose stimulus was right while the machine was not.
DISTURBED: Kind = "disturbed"
_LED_BY = f"{INTERFERENCE}: "
#: The check of a run whose user chose that what happens on the machine is no more than noted.
NOTED = f"{INTERFERENCE}.noted"


def _require_form(text: str) -> None:
    if not _FORM.fullmatch(text):
        raise ValueError(
            f"{text!r} is no verdict; allowed: 'valid', 'invalid: <reasons>', 'disturbed: <by what>', "
            "'failed: <stage>, <cause>', 'cancelled: <stage>'"
        )


class Reason(Handle):
    """Why a run's figures don't count, or why there are none; ``text`` says it to people.

    ``check``: the check that failed, after the dot of its group (``client_stall``, ``interference.steal``,
    ``neighbour.errors``). ``figure``: what it measured, and ``bound``: what it allows, both in ``unit``.
    ``stage``: the one that failed or was stopped. Each is None where there is none, or where it is not known: in
    reasons that an older version stored as a text. Such a text is taken wherever a reason is validated.
    """

    text: str = ""
    check: str | None = None
    figure: float | None = None
    bound: float | None = None
    unit: str | None = None
    stage: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"text": value, "check": check_of(value)} if isinstance(value, str) else value

    @property
    def group(self) -> str | None:
        """The check's group: ``interference``, ``neighbour``; None of a check of the run's own load."""
        group, dot, _ = (self.check or "").partition(".")
        return group if dot else None

    def within(self, group: str, prefix: str) -> Reason:
        """The same, of a check of that group; ``prefix`` leads its text."""
        check = f"{group}.{self.check or 'unknown'}"
        return self.model_copy(update={"check": check, "text": f"{prefix}: {self.text}"})

    def __str__(self) -> str:
        return self.text


class Verdict(Handle):
    """Whether a run's figures count, and why not; a text is taken wherever a verdict is validated.

    ValueError for a kind that does not exist, a valid run with reasons, or any other without.
    """

    kind: Kind
    reasons: tuple[Reason, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return _fields_of(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_its_reasons(self) -> Verdict:
        _require_form(str(self))
        if self.kind == "valid" and self.reasons:
            raise ValueError(f"a valid run has no reasons against it: {self.reasons[0].text!r}")
        if self.kind == DISTURBED and (others := [r for r in self.reasons if r.group != INTERFERENCE]):
            raise ValueError(f"not the machine's doing, which makes a run invalid: {others[0].text!r}")
        return self

    @classmethod
    def judged(cls, reasons: Iterable[Reason]) -> Verdict:
        """Of a run that came to its end: valid if there is no reason against it.

        Disturbed if each of them is the machine's doing, invalid with all of them else.
        """
        against = tuple(reasons)
        if not against:
            return VALID
        if any(reason.group != INTERFERENCE for reason in against):
            return cls(kind="invalid", reasons=against)
        # The kind says already what its reasons are of.
        bare = (r.model_copy(update={"text": r.text.removeprefix(_LED_BY)}) for r in against)
        return cls(kind=DISTURBED, reasons=tuple(bare))

    @classmethod
    def failed(cls, stage: str, cause: str) -> Verdict:
        """Of a run whose stage failed."""
        return cls(kind="failed", reasons=(Reason(stage=stage, text=cause),))

    @classmethod
    def cancelled(cls, stage: str) -> Verdict:
        """Of a run that its user stopped in that stage."""
        return cls(kind="cancelled", reasons=(Reason(stage=stage),))

    @classmethod
    def read(cls, text: str) -> Verdict:
        """The verdict of a text; what it says in words only (a figure, a bound) stays unknown.

        ``str()`` of it is the text again. ValueError for a text that is none.
        """
        return cls.model_validate(text)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Verdict | None:
        """The verdict of a stored result or run, by its value, else by its text; None where it has none yet."""
        text, value = document.get("verdict"), document.get("judgement")
        if isinstance(text, str) and value is not None:
            verdict = cls.model_validate(value)
            # An older version that ended the run since changed the text alone.
            return verdict if str(verdict) == text else cls.read(text)
        return None if text is None else cls.model_validate(text)

    @property
    def valid(self) -> bool:
        """Whether the figures may be compared with others."""
        return self.kind == "valid"

    @property
    def measured(self) -> bool:
        """Whether the run came to its end, so that there are figures, which may not count."""
        return self.kind in _MEASURED

    @property
    def disturbed(self) -> bool:
        """Whether something that happened on the machine is a reason: it may not happen again.

        Also of a run that is invalid for other reasons too; not of one where it was noted only.
        """
        return self.measured and any(
            reason.group == INTERFERENCE and reason.check != NOTED for reason in self.reasons
        )

    @property
    def bounds_only(self) -> bool:
        """Whether the figures are bounds of what a quiet machine gives, and no more than that."""
        return self.kind == DISTURBED

    def value(self) -> dict[str, Any]:
        """As plain data, without what is not known."""
        return self.model_dump(exclude_none=True)

    def as_stored(self) -> dict[str, Any]:
        """The text, which indexes and queries use, and the value beside it; ``of`` reads both."""
        return {"verdict": str(self), "judgement": self.value()}

    def __str__(self) -> str:
        if self.kind in _STAGED:
            reasons = [", ".join(filter(None, (reason.stage, reason.text))) for reason in self.reasons]
        else:
            reasons = [reason.text for reason in self.reasons]
        return f"{self.kind}: {'; '.join(reasons)}" if reasons else self.kind


def split(text: str) -> tuple[str, str]:
    """A verdict's text, or the status of a run that has none yet, as its first word and the rest.

    For what shows texts only: tables, pages, and clients of the API.
    """
    kind, _, words = text.partition(": ")
    return kind, words


def reasons_of(certificate: Mapping[str, Any]) -> tuple[Reason, ...]:
    """The reasons of a stored certificate; those of an older version are texts."""
    return tuple(Reason.model_validate(reason) for reason in certificate.get("reasons", ()))


def _fields_of(text: str) -> dict[str, Any]:
    _require_form(text)
    kind, words = split(text)
    if kind == DISTURBED:
        reasons = split_reasons(words)
        return {"kind": kind, "reasons": [{"text": r, "check": check_of(_LED_BY + r)} for r in reasons]}
    if kind not in _STAGED:
        return {"kind": kind, "reasons": split_reasons(words)}
    if staged := _STAGE_AND_CAUSE.fullmatch(words):
        return {"kind": kind, "reasons": [{"stage": staged[1], "text": staged[2]}]}
    return {"kind": kind, "reasons": [{"stage" if kind == "cancelled" else "text": words}]}


#: The verdict of every run whose figures count.
VALID = Verdict(kind="valid")
