"""Hostile variants of submissions for hypothesis: values, changed documents, changed texts, bodies."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "submissions"
#: What a field is not made for: other types, edges of numbers, paths, text that other programs would execute.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**299, 10**400, 0.0, -0.0, 1e-320, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), "", " ", "0", "1e999", "0x10", "1_000", "1:30", "nan", "yes", "~", "\n",
    "a" * 5000, "9" * 5000, "\0", "\x1b[31m", "\u202e", "\ud800", "\u0665", "\U0010ffff", "ﬀ", "é" * 200,
    "../../../etc/passwd", "/etc/shadow", "/proc/self/mem", "/dev/zero", "~/.ssh/id_rsa", "file:///etc/passwd",
    "http://127.0.0.1:1/", "{{ 7 * 7 }}", "${HOME}", "$(id)", "; id", "' OR 1=1", "<script>", "%s%n", "*" * 200,
    "(a+)+$", [], {}, [[]], [{}], {"": 0}, {"kind": "zoo"}, {"kind": ["zoo"]}, {"$where": "1"}, {"__class__": "x"},
    [None] * 100, list(range(2000)), {str(key): key for key in range(500)}, [0.5, -3, "x"],
    {"grid": {"a.b": [1]}}, {"zip": [{"load.seed": [1]}, 3]}, {"load.seed": "range(10)"}, {"load": {"seed": 1}},
    {"load.arrivals": [{"kind": "poisson"}, None, 3]}, {"name": ["a", "b"]}, {"sweep": {"sweep": [1]}},
)  # fmt: skip
#: Words of YAML that mean something, and bytes that break them.
WORDS = (
    "&a ", "*a", "*b", "<<: ", "!!python/object/apply:os.system [id]", "!!binary ", "!!set ", "! ", "? ", "- ", ": ",
    ":\n", "{", "}", "[", "]", "|", ">", ">-\n", "'", '"', '"\\x', '"\\U00110000"', "#", "%YAML 9.9\n", "%TAG ! !\n",
    "---\n", "...\n", "\t", "\r", "\n", "\0", "\ufeff", "\u2028", "\x85", "@", "`", "null", "=", "0o17", "1e5",
    "2026-01-01", "a: &a [*a]", "[" * 40, "{a: " * 40, "- " * 40, "  " * 500,
)  # fmt: skip


@cache
def texts() -> tuple[str, ...]:
    """The submissions of this repository; each of them is valid in ``FOLDER``."""
    return tuple(_in_folder(path) for path in sorted(FOLDER.rglob("*.yaml")))


def _in_folder(path: Path) -> str:
    """The text of a submission; the files beside it that it names are named as ``FOLDER`` sees them."""
    text = path.read_text(encoding="utf-8")
    for beside in path.parent.iterdir():
        if beside.is_file() and beside.suffix != ".yaml":
            text = text.replace(f"path: {beside.name}", f"path: {beside.relative_to(FOLDER)}")
    return text


@cache
def documents() -> tuple[Any, ...]:
    """The same as data; ones without sweep of thousands of points, so that most of what is changed is looked at."""
    loaded = [yaml.safe_load(text) for text in texts()]
    plain = [{key: value for key, value in document.items() if key != "sweep"} for document in loaded]
    return (*[d for d in loaded if len(str(d.get("sweep", ""))) < 500], *plain)


#: Any value of JSON, and those above.
ANYTHING = st.recursive(
    st.sampled_from(VALUES) | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=12,
)


@st.composite
def changed_documents(draw: st.DrawFn) -> Any:
    """A good submission in which one to four values, keys or items are something else, twice there, or gone."""
    document = copy.deepcopy(draw(st.sampled_from(documents())))
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(document))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        act = draw(st.sampled_from(("replace", "replace", "replace", "remove", "add", "move")))
        if act == "replace":
            container[key] = copy.deepcopy(draw(ANYTHING))
        elif act == "remove":
            del container[key]
        elif act == "move":
            other, place = draw(st.sampled_from(places))
            container[key] = copy.deepcopy(other[place])
        elif isinstance(container, dict):
            container[draw(st.text(max_size=12) | st.sampled_from(_names()))] = copy.deepcopy(draw(ANYTHING))
        else:
            container.append(copy.deepcopy(draw(ANYTHING)))
    return document


@st.composite
def changed_texts(draw: st.DrawFn) -> str:
    """The text of a good submission with words of YAML or any characters put in, and pieces repeated or left out."""
    text = draw(st.sampled_from(texts()))
    for _ in range(draw(st.integers(1, 6))):
        start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
        piece = draw(
            st.sampled_from(WORDS) | st.text(max_size=8) | st.just(text[start : start + length]) | st.just("")
        )
        text = text[:start] + piece + text[start + length * draw(st.booleans()) :]
    return text


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A body of ``/submissions/validate``: JSON of anything or of a changed submission; broken JSON."""
    body: dict[str, Any] = {}
    kind = draw(st.sampled_from(("document", "document", "text", "anything", "name")))
    if kind == "anything":
        return draw(st.binary(max_size=300)) if draw(st.booleans()) else _json(draw(ANYTHING))
    if kind == "name":
        body["name"] = draw(st.sampled_from(("quickstart", "../quickstart", "paper/x", *_plain_values())))
    else:
        body["submission"] = draw(changed_documents() if kind == "document" else changed_texts())
    for field in draw(st.sets(st.sampled_from(("user", "priority", "slo", "name", "other")), max_size=2)):
        body.setdefault(field, draw(ANYTHING))
    encoded = _json(body)
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(encoded)))
        encoded = encoded[:at] + draw(st.binary(max_size=8)) + encoded[at:]
    return encoded


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _plain_values() -> list[Any]:
    return [value for value in VALUES if not isinstance(value, list | dict)]


@cache
def _names() -> tuple[str, ...]:
    """Every key of the good submissions."""
    return tuple(
        sorted(
            {key for document in documents() for container, key in _places(document) if isinstance(key, str)}
        )
    )


def _places(value: Any) -> Any:
    """Every (container, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)
