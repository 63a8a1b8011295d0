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
    """The longest request of a job with ``prompts``; of a law without an upper end its least, which each request has.

    Of conversations it is the last turn, which carries all that was said before. ``template_tokens``: of the model's
    chat template around all of it. ``at_least``: the names of those of which only the least is known.
    """

    input_tokens: int
    output_tokens: int
    turns: int
    prefix_tokens: int
    at_least: frozenset[str]

    @classmethod
    def of(cls, spec: JobSpec) -> Longest:
        """By the job's own laws, and the usual lengths where it gives none."""
        requests = spec.requests
        laws = {name: getattr(requests, name) for name in ("input_tokens", "output_tokens", "turns")}
        return cls(
            input_tokens=_most(requests.input_tokens, INPUT_TOKENS),
            output_tokens=_most(requests.output_tokens, OUTPUT_TOKENS),
            turns=_most(requests.turns, 1),
            prefix_tokens=requests.shared_prefix.tokens if requests.shared_prefix else 0,
            at_least=frozenset(name for name, law in laws.items() if law is not None and law.most is None),
        )

    def tokens(self, template_tokens: int = 0) -> int:
        """Of prompt and answer."""
        a_turn = self.input_tokens + self.output_tokens
        return self.turns * a_turn + self.prefix_tokens + template_tokens

    def words(self, template_tokens: int = 0) -> str:
        """What it consists of."""
        parts = [f"{self._bound(name)}{n:,} {name}" for name, n in self._each()]
        if self.turns > 1:
            parts = [f"{' and '.join(parts)} in each of {self._bound('turns')}{self.turns:,} turns"]
        if self.prefix_tokens:
            parts.append(f"{self.prefix_tokens:,} of a shared prefix")
        if template_tokens:
            parts.append(f"{template_tokens:,} of the model's chat template")
        return f"{'' if self.at_least else 'up to '}{' and '.join(parts)}"

    def fields(self) -> tuple[str, ...]:
        """Where that is said."""
        names = [f"requests.{name}" for name, _ in sorted(self._each(), key=self._weight)]
        return (*names, *(["requests.turns"] if self.turns > 1 else []), "serve.context_tokens")

    def _each(self) -> tuple[tuple[str, int], ...]:
        return (("input_tokens", self.input_tokens), ("output_tokens", self.output_tokens))

    def _weight(self, one: tuple[str, int]) -> int:
        # Beside a law's least, which may be 1, the larger one is what is too long.
        return -one[1] if self.at_least else 0

    def _bound(self, name: str) -> str:
        if name in self.at_least:
            return "at least "
        return "up to " if self.at_least else ""


def _most(law: Lengths | None, usual: int) -> int:
    return usual if law is None else law.most or law.least


def context_findings(spec: JobSpec, backends_own: int | None) -> Iterator[Finding]:
    """Prompts and answers that fit into no slot, before a model or a file is known; ``backends_own``: see ``Slot``."""
    slot = Slot.of(spec, backends_own)
    if slot is None or not spec.streamed or spec.requests.kind != "prompts":
        return
    longest = Longest.of(spec)
    if longest.tokens() > slot.tokens:
        yield Finding(longest.fields(), slot.refusal(longest.words(), longest.tokens()))
