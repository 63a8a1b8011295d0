"""YAML text -> plain data, with the line of every value; safe against hostile text.

Only mappings, lists and scalars come out. Tags, merge keys, repeated keys, several documents, control
characters, aliases that refer to themselves, and anything beyond the limits of size, depth and number
of values are problems; so is a value that YAML readers disagree on (see ``scalars``).
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.problem import FieldPath, Problem, dotted, show
from inferbench_tasks.submission.scalars import AmbiguousScalarError, read_plain

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
#: Values in a document, each counted as often as an alias repeats it.
MAX_VALUES = 50_000
#: Lines, and keys of one mapping: far more than a submission has, and each costs time, also to say what is wrong.
MAX_LINES = 50_000
MAX_KEYS = 1_000

#: Characters that reorder the text around them, so that a file reads otherwise than it works.
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLAIN_ENGLISH = {
    "found character '\\t' that cannot start any token": "a tab may not indent YAML; use spaces",
    "mapping values are not allowed here": "a ':' where none is expected; a text that holds ': ' needs quotes",
    "could not find expected ':'": "a key without its ':'",
    "expected <block end>, but found '<block mapping start>'": "this key is indented further than the one "
    "that it should stand under or beside",
}


@dataclass
class Document:
    """``lines`` has the line (from 1) of every path; ``broken`` the paths whose value was refused,
    ``written`` the text of the values that are no text.
    """

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[FieldPath, int] = field(default_factory=dict)
    broken: set[FieldPath] = field(default_factory=set)
    written: dict[FieldPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: FieldPath) -> int | None:
        """The line of a path, or of the nearest thing around it; None without a text.

        A place in a list may be a number, or the text of one, as in ``models.3.model``.
        """
        while path:
            for same in (path, tuple(_place(key) for key in path)):
                if same in self.lines:
                    return self.lines[same]
            path = path[:-1]
        return self.lines.get(path)

    def problem(self, path: FieldPath, message: str) -> Problem:
        """The problem with this message at the line of a path."""
        return Problem(self.file, self.line(path), dotted(path), message)


def _place(key: str | int) -> str | int:
    return int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else key


def read_document(text: str, file: str) -> Document:
    """Read one YAML document that holds a mapping.

    What can still be read in spite of problems is; SubmissionError only when there is no mapping.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        _refuse(file, None, f"larger than {MAX_BYTES:,} bytes; a submission is a few lines of YAML")
    if text.count("\n") > MAX_LINES:
        _refuse(file, None, f"more than {MAX_LINES:,} lines; a submission is a few lines of YAML")
    text = text.removeprefix("\ufeff")
    if bad := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        _refuse(file, line, f"the character {_name(bad.group())} is not allowed in YAML")
    builder = _Builder(Document(file))
    try:
        builder.build(_compose(text, builder))
    except _LimitError as error:
        _refuse(file, error.line, str(error))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "").strip()
        words = _PLAIN_ENGLISH.get(problem, problem)
        if problem.startswith("found undefined alias"):
            words = f"{problem}; a text that begins with * needs quotes"
        _refuse(file, mark.line + 1 if mark else None, f"not valid YAML: {words}")
    except (ValueError, OverflowError):  # an escape or %YAML version that no character or number is
        _refuse(file, builder.reached + 1, "not valid YAML: an escape or a version that is out of range")
    return builder.document


def _refuse(file: str, line: int | None, message: str) -> NoReturn:
    raise SubmissionError([Problem(file, line, "", message)])


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"


class _LimitError(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class _Composer(yaml.SafeLoader):
    """Composes nodes only, never Python objects; counts while it does, so that nothing can grow first."""

    def __init__(self, text: str, builder: _Builder) -> None:
        super().__init__(text)
        self._builder = builder
        self._depth = 0
        self._count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line: int = event.start_mark.line + 1
        self._count += 1
        self._depth += 1
        if self._count > MAX_VALUES:
            raise _LimitError(line, f"more than {MAX_VALUES:,} values")
        if self._depth > MAX_DEPTH:
            raise _LimitError(line, f"nested deeper than {MAX_DEPTH} levels")
        if tag := getattr(event, "tag", None):
            self._builder.tag(line, tag)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _compose(text: str, builder: _Builder) -> yaml.Node:
    composer = _Composer(text, builder)
    file = builder.document.file
    try:
        composer.get_event()  # type: ignore[no-untyped-call]  # the stream's start
        if composer.check_event(yaml.StreamEndEvent):
            _refuse(file, None, "empty; a submission needs at least name, model and load")
        node = composer.compose_document()
        assert node is not None
        if not composer.check_event(yaml.StreamEndEvent):
            event: Any = composer.peek_event()  # type: ignore[no-untyped-call]
            line = event.start_mark.line + 1
            _refuse(file, line, "a second document starts here; one file holds one submission")
    finally:
        builder.reached = composer.line
        composer.dispose()
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        if isinstance(node, yaml.ScalarNode) and not node.value and node.style is None:
            kind = "nothing"
        _refuse(
            file, node.start_mark.line + 1, f"holds {kind}; a submission is a mapping (name: ..., model: ...)"
        )
    return node


class _Builder:
    """From nodes to data, noting lines and problems on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.reached = 0  # the line, from 0, that the parser came to
        self._count = 0
        self._open: set[int] = set()

    def tag(self, line: int, tag: str) -> None:
        """Note a tag; the value is read as if it had none, so that its other problems show too."""
        short = tag.replace("tag:yaml.org,2002:", "!!")
        self._add(
            line, "", f"the tag {show(short)} is not allowed; a submission is plain text, numbers and lists"
        )

    def build(self, node: yaml.Node) -> None:
        """Build the document's values and the lines of its paths."""
        self.document.lines[()] = node.start_mark.line + 1
        self.document.data = self._value(node, ())

    def _add(self, line: int, where: str, message: str) -> None:
        self.document.problems.append(Problem(self.document.file, line, where, message))

    def _value(self, node: yaml.Node, path: FieldPath) -> Any:
        line = self.document.lines[path]
        self._count += 1
        if self._count > MAX_VALUES:
            raise _LimitError(line, f"more than {MAX_VALUES:,} values, counted with what its aliases repeat")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, line)
        if id(node) in self._open:
            raise _LimitError(line, "an alias refers to a value that it is itself a part of")
        if len(path) > MAX_DEPTH:
            raise _LimitError(line, f"nested deeper than {MAX_DEPTH} levels, counted through its aliases")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._item(item, (*path, i), line) for i, item in enumerate(node.value)]
            assert isinstance(node, yaml.MappingNode)
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _item(self, node: yaml.Node, path: FieldPath, least_line: int) -> Any:
        # An alias's node stands where its anchor does, which may be far from this list.
        line = node.start_mark.line + 1
        self.document.lines[path] = line if line >= least_line else least_line
        return self._value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if len(node.value) > MAX_KEYS:
            raise _LimitError(self.document.lines[path], f"a mapping of more than {MAX_KEYS:,} keys")
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(line, dotted(path), "a key is a single word, not a list or mapping")
                continue
            key = key_node.value
            here = (*path, key)
            if key == "<<" and key_node.style is None:
                self._add(line, dotted(path), "merge keys (<<) are not allowed; write the keys out")
            elif key in values:
                self._add(
                    line, dotted(here), f"the key stands twice; first on line {self.document.lines[here]}"
                )
            else:
                self.document.lines[here] = line
                values[key] = self._value(value_node, here)
        return values

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath, line: int) -> Any:
        problem = None
        value: Any = node.value
        if node.style is None:
            try:
                value = read_plain(node.value)
            except AmbiguousScalarError as error:
                problem = str(error)
        if problem is None and isinstance(value, str):
            problem = bad_character(value)
        if problem is None:
            if value is not node.value and node.value:
                self.document.written[path] = node.value
            return value
        self._add(line, dotted(path), problem)
        self.document.broken.add(path)
        return None


def bad_character(text: str) -> str | None:
    """What a text has that none may have (control characters, halves of characters, reordering); None if nothing."""
    if text.isprintable():
        return None
    for character in text:
        if character in _BIDI or (
            unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        ):
            return f"the character {_name(character)} is not allowed in a text"
    return None
