"""The load that a run was offered: only under the same one do two runs' figures tell of their servers.

A server answers an open loop's rate, no more; and at a hundredth of the rate every latency is low. So the load is no
configuration, and whoever ranks, recommends or compares does so within one. It is told in samples, so that 800
requests/s of one sample are the same load as 100 requests/s of eight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from inferbench_tasks.arrivals.base import ARRIVALS, ArrivalProcess
from inferbench_tasks.errors import InputError

#: The network that a load has unless another is named.
_USUAL_NETWORK = "lan"
#: How inputs come to a server unless another way is named, and in results of before there was one.
_USUAL_TRANSPORT = "network"
#: What the network of a load begins with that came from other hosts, or went to replicas on others: behind it stand
#: all their names, for between others it is another network. The job, and so its digest, does not say which they were.
#: What it was like is measured (``extensions.client_host``). No comma: a filter takes that for two values.
BETWEEN_HOSTS = "between hosts"
UNKNOWN = "load not known"
_ONE_OF_BEFORE = re.compile(r"(?<![\d,.])1 samples in flight")
#: What says how long a load is, which the words of before did not.
_LENGTH = re.compile(r", (?:for \S+ s|(?:ended after )?[\d,]+ samples)(?=, |$)")
#: Figures that a run's load does not change, and those that how long it is does not.
OF_ANY_LOAD = ("accuracy_ratio", "cold_start_ms")
OF_ANY_LENGTH = ("throughput_samples_per_s",)
#: The arrivals of a run without a load, which only evaluated or traced.
NO_LOAD, WITHOUT_LOAD = "none", "no load"


def is_search(load: str) -> bool:
    """Whether that load, in ``offered``'s words, is a search for the highest rate: each run has a rate of its own."""
    return load.split(",", 1)[0] == _SEARCH


def in_words_of_now(load: str) -> str:
    """A load as ``offered`` says it, of one that a link or a script may have in the words of before."""
    return _ONE_OF_BEFORE.sub("1 sample in flight", load.strip())


def named(load: str) -> Callable[[str], bool]:
    """Which loads, in ``offered``'s words, are the one that a link or a script names.

    One that says no length, as words of before, names each length of it.
    """
    asked = in_words_of_now(load)
    return lambda each: asked in (each, _LENGTH.sub("", each))


@cache
def sets_rate(load: str) -> bool:
    """Whether that load, in ``offered``'s words, says how many samples are answered per second: an open loop with which
    the server keeps up. Of users who wait, of all at once, of a search and of overload the server says it.
    """
    process = _process(kind := load.split(",", 1)[0])
    if process is None or kind == _SEARCH or _OVERLOAD in load:
        return False
    return process.loop == "open" and process.paced


@cache
def _process(kind: str) -> type[ArrivalProcess] | None:
    """None of one that isn't here: a package's, which was removed or can't be imported."""
    try:
        return ARRIVALS.load(kind) if kind in ARRIVALS else None
    except InputError:
        return None


def offered(load: Mapping[str, Any]) -> str:
    """Of a result's ``load``: ``poisson, 800 samples/s``, ``closed_loop, 8 samples in flight, network wifi``.

    Equal for equal loads. All settings of the arrivals count, and the network between client and server; its seed and
    its client do not. How long the load lasts counts where figures follow from it: where overload was asked for
    (``load.expect``: ``poisson, 800 samples/s, overload for 20 s``), where the load itself changes with time
    (``spike, ..., for 60 s``), and how many samples there are where all are there from the start (``offline, 4,000
    samples``). ``UNKNOWN`` where the result has no arrivals.
    """
    arrivals = load.get("arrivals") or {}
    settings = tuple(sorted(arrivals.items()))
    size = arrivals.get("samples_per_query") or load.get("batch_size") or 1
    network = load.get("network") or _USUAL_NETWORK
    try:
        words = _words(settings, size, network)
    except (
        TypeError
    ):  # an arrival process of a package may have lists among its settings, which no cache takes
        words = _words.__wrapped__(settings, size, network)
    if words == UNKNOWN:
        return words
    length = load.get("duration_s")
    if load.get("expect"):
        return f"{words}, {load['expect']} for {_exact(length or 0)} s"
    process = _process(str(arrivals["kind"]))
    changes = process is not None and process.paced and not process.stationary
    return f"{words}, for {_exact(length)} s" if changes and length else words


@lru_cache(maxsize=4096)
def _words(arrivals: tuple[tuple[str, Any], ...], size: int, network: str) -> str:
    """Of few different loads a hundred thousand results are told."""
    kind = dict(arrivals).get("kind")
    if not kind:
        return UNKNOWN
    if kind == NO_LOAD:
        return WITHOUT_LOAD
    no_part = (*_NO_PART, *_OF_THE_SEARCH) if kind == _SEARCH else _NO_PART
    process = _process(str(kind))
    if process is None or process.paced:
        no_part = (*no_part, _ALL_AT_ONCE)
    settings = {name: value for name, value in arrivals if value and name not in no_part}
    parts = [str(kind), *(_part(name, value, size) for name, value in settings.items())]
    if not any(_in_samples(name) for name in settings) and kind not in _OF_ANY_SIZE and size > 1:
        parts.append(_in_flight(size))
    if network != _USUAL_NETWORK:
        parts.append(f"network {network}")
    return ", ".join(parts)


def spoken(load: Mapping[str, Any]) -> str | None:
    """How a result's requests come to the server: its protocol, and the memory that inputs go through past it.

    ``grpc``, ``grpc, inputs in shared memory``; None where no protocol is known.
    """
    protocol: str | None = load.get("protocol")
    if protocol is None or load.get("transport", _USUAL_TRANSPORT) in (None, _USUAL_TRANSPORT):
        return protocol
    return f"{protocol}, inputs in {str(load['transport']).replace('_', ' ')}"


@lru_cache(maxsize=4096)
def but_for_length(text: str) -> str:
    """The same for a figure that no length changes: of a load whose samples are all there from the start how many are
    answered per second, once that is as many as the server can.
    """
    return _LENGTH.sub("", text) if text.startswith("offline") else text


def of_figures(text: str, names: Iterable[str]) -> str:
    """The same for all of these figures: without its length where that changes none of them."""
    return but_for_length(text) if {*names} <= {*OF_ANY_LOAD, *OF_ANY_LENGTH} else text


def of_requests(text: str, size: int | None) -> str:
    """The same for a figure of a request, which depends on how many samples a request has."""
    return f"{text}, in requests of {size or 1}"


#: What says nothing of how hard the load is: its name, and what is the size already.
_NO_PART = ("kind", "samples_per_query")
#: How many requests there are of a load that hands them all over at once: the last waits for all others. Of any other
#: load it would only be its length.
_ALL_AT_ONCE = "requests"
#: How many requests end a load that changes with time, and the files that it is drawn from (``stages.collect``).
_ENDS_AFTER, _DIGESTS = "max_requests", ("digest", "prompts_digest")
_DIGITS = 12
#: How a rate is searched for does not tell either; which objective it keeps does (``max_rate, p99_ms <= 20``).
_SEARCH = "max_rate"
#: What ends the words of a load that is more than the server can take (``load.expect``).
_OVERLOAD = ", overload for "
_OF_THE_SEARCH = ("start_rate_rps", "resolution_ratio", "limit_s")
#: All requests of an offline load are there from the start, and a search finds its rate: the size is how they are
#: packed.
_OF_ANY_SIZE = ("offline", _SEARCH)


def _in_samples(name: str) -> bool:
    return name.endswith("rate_rps") or name == "concurrency"


def _in_flight(samples: int) -> str:
    return f"{samples:,d} sample{'' if samples == 1 else 's'} in flight"


def _part(name: str, value: Any, size: int) -> str:
    if name == "concurrency":
        return _in_flight(value * size)
    if name.endswith("rate_rps"):
        rate = f"{_exact(value, size)} samples/s"
        return rate if name == "rate_rps" else f"{name.removesuffix('_rate_rps')} {rate}"
    if name == "objective":
        return str(value)
    if name in (_ALL_AT_ONCE, _ENDS_AFTER):
        return f"{'ended after ' if name == _ENDS_AFTER else ''}{value * size:,d} samples"
    if name in _DIGESTS:
        return f"{name} {str(value)[:_DIGITS]}"
    return f"{name} {_exact(value)}" if isinstance(value, float) else f"{name} {value}"


def _exact(value: float, times: int = 1) -> str:
    """The product as short as ``g`` where that is the number itself, else with all its digits: by these words two loads
    are equal. In decimals, so that 0.1 x 3 is 0.3.
    """
    product = Decimal(repr(value)) * times
    short = f"{float(product):g}"
    return short if Decimal(short) == product else f"{product.normalize():f}"
