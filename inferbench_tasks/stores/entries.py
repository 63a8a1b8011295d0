"""Entries of the caches as artifacts: what they are made of stands in their manifests already."""

from __future__ import annotations

import json
from pathlib import Path

from inferbench_tasks.artifacts.cache import MANIFEST
from inferbench_tasks.errors import StorageError


def root_of(path: Path, data_dir: Path) -> Path | None:
    """The folder of the cache's entry that a path lies in; None for what is in none."""
    cache = data_dir / "cache"
    for folder in (path, *path.parents):
        if folder == cache or not folder.is_relative_to(cache):
            return None
        if (folder / MANIFEST).is_file():
            return folder
    return None


def entry_digests(root: Path) -> dict[str, str] | None:
    """Name -> SHA-256 of an entry's files, as they were when it was made or found; None where it is no entry."""
    try:
        files = json.loads((root / MANIFEST).read_bytes())["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{root / MANIFEST} is damaged; remove {root}, it is made again.") from error
