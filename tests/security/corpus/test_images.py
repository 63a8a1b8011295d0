"""Images that submissions name, and what their servers say: refused, and bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, ServerError
from inferbench_tasks.launchers import images
from inferbench_tasks.launchers.container import newest

OURS, THEIRS = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


class Engine:
    """The part of Docker's SDK that looks for images: ``here`` are those of this machine, by name."""

    def __init__(self, here: dict[str, tuple[str, list[str]]]) -> None:
        self.here, self.images, self.pulled = here, self, list[str]()

    def get(self, name: str) -> Any:
        """As the SDK does."""
        import docker

        if name not in self.here:
            raise docker.errors.ImageNotFound(name)
        self.id, digests = self.here[name]
        self.attrs = {"RepoDigests": digests}
        return self

    def pull(self, name: str) -> Any:
        """As the SDK does; the image is the one that is named."""
        self.pulled.append(name)
        self.here[name] = (OURS, [name])
        return self.get(name)


def test_without_a_list_no_submission_brings_an_image(tmp_path: Path) -> None:
    """Backends' own images run; the refusal names the file and the line to add."""
    engine = Engine({"x:1": (OURS, [])})
    assert images.resolve(engine, "x:1", tmp_path, by_submission=False) == OURS
    with pytest.raises(InputError, match=rf"list of allowed images.*{OURS}.*images\.txt"):
        images.resolve(engine, "x:1", tmp_path, by_submission=True)


def test_the_list_is_of_digests_not_of_names(tmp_path: Path) -> None:
    """A tag that was moved to another image is another image; a registry's digest counts as well as the image's id."""
    (tmp_path / images.LIST).write_text(f"registry/x@{OURS}\n")
    engine = Engine({"x:1": (THEIRS, [f"registry/x@{OURS}"]), "x:2": (OURS, []), "x:3": (THEIRS, [])})
    assert images.resolve(engine, "x:1", tmp_path, by_submission=True) == THEIRS
    assert images.resolve(engine, "x:2", tmp_path, by_submission=True) == OURS
    with pytest.raises(InputError, match="not on this system's list"):
        images.resolve(engine, "x:3", tmp_path, by_submission=True)


@pytest.mark.parametrize("line", ["x:1", "*", "sha256:ab", f"{OURS}0", "name@", f"{OURS} {THEIRS}"])
def test_a_list_that_can_not_be_read_allows_nothing(tmp_path: Path, line: str) -> None:
    """A line without a digest is an error with its number, never a pattern."""
    (tmp_path / images.LIST).write_text(f"{OURS}\n{line}\n")
    with pytest.raises(InputError, match=r"images\.txt:2: .*ends with no digest"):
        images.resolve(Engine({"x:1": (OURS, [])}), "x:1", tmp_path, by_submission=True)


def test_nothing_is_pulled_unless_the_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a backend's own image, and a submission's only by a digest of the list."""
    engine = Engine({})
    for by_submission in (True, False):
        with pytest.raises(ServerError, match="not on this machine, and nothing is pulled"):
            images.resolve(engine, f"x@{OURS}", tmp_path, by_submission=by_submission)
    monkeypatch.setenv(images.PULL, "missing")
    (tmp_path / images.LIST).write_text(OURS)
    for name in ("x:1", f"x@{THEIRS}", f"{OURS}"):
        with pytest.raises(ServerError, match="nothing is pulled"):
            images.resolve(engine, name, tmp_path, by_submission=True)
    assert engine.pulled == []
    assert images.resolve(engine, f"x@{OURS}", tmp_path, by_submission=True) == OURS
    assert images.resolve(engine, "tensorflow/serving:2", tmp_path, by_submission=False) == OURS


def test_a_log_without_end_is_not_read_into_memory() -> None:
    """The newest bytes are kept; the stream is read piece by piece."""
    held: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(1_000):
            held.append(number)
            yield bytes([number % 256]) * 1_000

    assert newest(chunks(), 2_500) == bytes([229]) * 500 + bytes([230]) * 1_000 + bytes([231]) * 1_000
    assert len(held) == 1_000 and newest(iter([b"abc"]), 10) == b"abc" and newest(iter([]), 10) == b""
