"""Prometheus' text format, for one page that is read again and again while a run is measured."""

from __future__ import annotations

import math
import re

#: More figures than this are cut: an exporter of a large machine must not fill the recording.
MAX_FIGURES = 200
#: The parser itself takes any text before labels for a name.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
#: Labels that tell series of one name apart in a way that matters; others are summed over.
_KEPT_LABELS = ("stage", "gpu", "mode", "le", "quantile", "reason")
#: With more series than this known, all are forgotten: containers that come and go must not fill the memory.
_MAX_KNOWN = 50_000
#: The same, by the characters of their names and labels.
_MAX_KNOWN_CHARACTERS = 8_000_000


class TextReader:
    """Reads the pages of one address.

    What a series is, prometheus_client's parser says when it is first seen; of later pages only its value is read. To
    parse every page anew takes five times the CPU for a Triton and sixteen times for pages of many histograms: up to a
    tenth of a core, beside the server that is measured.

    ``names``: only names that match are read. ``container_*`` figures stand for a tree of control groups, in which a
    parent contains its children: only those of the one container count, or of the root ("/").
    """

    def __init__(self, names: re.Pattern[str] | None = None, container_id: str | None = None) -> None:
        # Here, for it takes a tenth of a second: a monitor is made before its first reading is due.
        from prometheus_client.parser import text_string_to_metric_families

        self._parse = text_string_to_metric_families
        self._names = names
        self._container_id = container_id
        self._figures: dict[str, str | None] = {}
        """Series as it stands in the page -> the figure it counts for, None: for none."""
        self._characters = 0

    def read(self, text: str) -> dict[str, float]:
        """Figure -> value; histograms' buckets are left out, series that differ in other labels are summed."""
        if len(self._figures) > _MAX_KNOWN or self._characters > _MAX_KNOWN_CHARACTERS:
            self._figures.clear()
            self._characters = 0
        values: dict[str, float] = {}
        known = self._figures
        kind = ""
        for line in text.split("\n"):
            if line.startswith("#"):
                if line.startswith("# TYPE "):
                    kind = line if len(line.split()) == 4 else ""
                continue
            # The last brace closes the labels: neither a value nor a timestamp has one.
            series, brace, rest = line.rpartition("}")
            if not brace:
                series, _, rest = line.replace("\t", " ").strip().partition(" ")
            try:
                name = known[series]
            except KeyError:
                name = known[series] = self._figure(kind, series + brace)
                self._characters += len(series)
            if name is None:
                continue
            try:
                value = float(rest.split(None, 1)[0])
            except (ValueError, IndexError):
                continue
            if math.isfinite(value) and (name in values or len(values) < MAX_FIGURES):
                values[name] = values.get(name, 0.0) + value
        return values

    def _figure(self, kind: str, series: str) -> str | None:
        """The figure that a series counts for; ``kind``: the last line before it that tells a type.

        Counters get the ``_total`` that they lack (Triton's ``nv_*``). None too for what is no series.
        """
        name = series.partition("{")[0].strip()
        is_figure = _NAME.fullmatch(name) and not name.endswith("_bucket")
        if not is_figure or (self._names and not self._names.fullmatch(name)):
            return None
        try:
            (sample,) = (s for family in self._parse(f"{kind}\n{series} 1\n") for s in family.samples)
        except (ValueError, IndexError):  # both are what the parser makes of a broken line
            return None
        if name.startswith("container_") and not _is_of(sample.labels.get("id", ""), self._container_id):
            return None
        labels = "".join(f"[{key}={sample.labels[key]}]" for key in _KEPT_LABELS if key in sample.labels)
        return f"{name}{labels}{sample.name.removeprefix(name)}"


def _is_of(group: str, container_id: str | None) -> bool:
    """Whether a control group is that container's ("/docker/<id>", ".../docker-<id>.scope"), or the root."""
    if container_id is None:
        return group == "/"
    return group.rstrip("/").removesuffix(".scope").endswith(container_id)
