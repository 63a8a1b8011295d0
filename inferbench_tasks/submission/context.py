"""Whether prompts and answers fit into a server's slot, as far as a submission alone tells how long they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.token_lengths import INPUT_TOKENS, OUTPUT_TOKENS, Lengths


@dataclass(frozen=True)
class Slot:
    """The tokens of one request, prompt and answer together; ``default`` where the backend's own number holds."""

    tokens: int
    default: bool

    @classmethod
    def of(cls, spec: JobSpec, backends_own: int | None) -> Slot | None:
        """That of a job; None where its backend has none, or nobody knows how large it is."""
        tokens = spec.serve.context_tokens or backends_own
        return None if tokens is None else cls(tokens, spec.serve.context_tokens is None)

    def refusal(self, what: str, tokens: int) -> str:
        """Why so many tokens don't fit."""
        by = "the backend's default; set serve.context_tokens" if self.default else "serve.context_tokens"
        return f"{what} are {tokens:,} tokens, more than a slot's {self.tokens:,} ({by})"


@dataclass(frozen=True)
class Longest:
    """The longest request of a job with ``prompts`` as far as its laws have an upper end: what has none counts as 0.

    Of conversations it is the last turn, which carries all that was said before. ``template_tokens``: of the model's
    chat template around all of it.
    """

    input_tokens: int | None
    output_tokens: int | None
    turns: int
    prefix_tokens: int

    @classmethod
    def of(cls, spec: JobSpec) -> Longest:
        """By the job's own laws, and the usual lengths where it gives none."""
        requests = spec.requests
        turns = requests.turns.most if requests.turns is not None else None
        return cls(
            input_tokens=_most(requests.input_tokens, INPUT_TOKENS),
            output_tokens=_most(requests.output_tokens, OUTPUT_TOKENS),
            turns=turns or 1,
            prefix_tokens=requests.shared_prefix.tokens if requests.shared_prefix else 0,
        )

    def tokens(self, template_tokens: int = 0) -> int:
        """Of prompt and answer."""
        a_turn = (self.input_tokens or 0) + (self.output_tokens or 0)
        return self.turns * a_turn + self.prefix_tokens + template_tokens

    def words(self, template_tokens: int = 0) -> str:
        """What it consists of."""
        parts = [f"{n:,} {name}" for name, n in self._known() if n is not None]
        if self.turns > 1:
            parts = [f"{' and '.join(parts)} in each of {self.turns:,} turns"]
        if self.prefix_tokens:
            parts.append(f"{self.prefix_tokens:,} of a shared prefix")
        if template_tokens:
            parts.append(f"{template_tokens:,} of the model's chat template")
        return f"up to {' and '.join(parts)}"

    def fields(self) -> tuple[str, ...]:
        """Where that is said."""
        names = [f"requests.{name}" for name, n in self._known() if n is not None]
        return (*names, *(["requests.turns"] if self.turns > 1 else []), "serve.context_tokens")

    def _known(self) -> tuple[tuple[str, int | None], ...]:
        return (("input_tokens", self.input_tokens), ("output_tokens", self.output_tokens))


def _most(law: Lengths | None, usual: int) -> int | None:
    return usual if law is None else law.most


def context_findings(spec: JobSpec, backends_own: int | None) -> Iterator[Finding]:
    """Prompts and answers that fit into no slot, before a model or a file is known; ``backends_own``: see ``Slot``."""
    slot = Slot.of(spec, backends_own)
    if slot is None or not spec.streamed or spec.requests.kind != "prompts":
        return
    longest = Longest.of(spec)
    if longest.tokens() > slot.tokens:
        yield Finding(longest.fields(), slot.refusal(longest.words(), longest.tokens()))
