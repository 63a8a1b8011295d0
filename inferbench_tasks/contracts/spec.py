"""What every part of a submission has in common: frozen, strict, no unknown key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Spec(BaseModel):
    """Data that never acts: no environment, network or file is touched by a validator.

    The text under a field is its description: the reference and the JSON schema read it from the source.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


SLUG_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*$"
IMAGE_PATTERN = r"^[a-z0-9][A-Za-z0-9._/:@-]*$"
NETWORK_PATTERN = r"^(?:[A-Za-z0-9][A-Za-z0-9_.-]*|custom:[a-z_]+=[0-9.]+(?:,[a-z_]+=[0-9.]+)*)$"
FUNCTION_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
#: ``input_ids.1``: an input's name and the number of its axis, the batch being 0.
AXIS_PATTERN = r"^.+\.[1-9][0-9]?$"
#: ``>=2``, ``< 1.5``
COMPARISON_PATTERN = r"^(?:>=|<=|==|>|<) ?[0-9]{1,9}(?:\.[0-9]{1,9})?$"
#: Patterns in words, for messages and the reference.
PATTERNS = {
    SLUG_PATTERN: "a name (letters, digits, '-', '_' and single dots inside, starting with a letter or digit)",
    IMAGE_PATTERN: "the name of an image (such as registry/name:tag)",
    NETWORK_PATTERN: "the name of a network, or custom: with figures (custom:latency_ms=20,loss_ratio=0.01)",
    FUNCTION_PATTERN: "the name of a function (letters, digits, '_')",
    SHA256_PATTERN: "a SHA-256 (64 lowercase hexadecimal digits)",
    COMPARISON_PATTERN: "a comparison (>=, >, <=, < or == with a number, such as '>=2')",
    AXIS_PATTERN: "an input and its axis, the batch being 0 (such as input_ids.1),",
}
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True)
class Versioned:
    """Of a name in a submission: a constraint may stand behind it, which reading resolves to the name alone."""

    words = "or one with a constraint on the version of its manifest (such as words@^1)"


def stays_inside(path: str) -> str:
    """Refuse what could lead out of the submission's folder; links are followed and checked on reading."""
    if path.startswith(("/", "~")) or _DRIVE.match(path) or "\\" in path or "://" in path:
        raise ValueError(
            f"{path!r} must be a path relative to the submission's folder, with / between folders"
        )
    if ".." in path.split("/"):
        raise ValueError(f"{path!r} must not leave the submission's folder (..)")
    return path


#: Letters, digits, dot, underscore, hyphen: safe as a file name, in a shell, in HTML and as a Mongo key.
Slug = Annotated[str, Field(pattern=SLUG_PATTERN, max_length=100)]
#: A path below the submission's folder, as text; never absolute, never upwards.
RelativePath = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(stays_inside)]
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
