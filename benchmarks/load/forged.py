"""Does the certificate catch records that are not those of the load? ``python -m benchmarks.load.forged``

Forged and broken record sets of every kind of load, each of which must be refused, and honest ones of varied shape,
none of which may be. Exit code 1 if one was judged wrongly.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.load.forgeries import forged
from benchmarks.load.honest import honest
from benchmarks.load.record_sets import RecordSet
from inferbench_tasks.loadgen.certificate import Certificate, certify
from tests.samples import samples_table


@dataclass(frozen=True)
class Judgement:
    """A record set's certificate, in short: ``checks`` are those that failed."""

    name: str
    checks: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether the certificate is invalid."""
        return bool(self.checks)


def certificate_of(records: RecordSet) -> Certificate:
    """Judge a record set as the stage ``load`` does."""
    start_ns, end_ns = records.window_ns
    return certify(
        samples_table(records.columns),
        records.plan,
        records.usages,
        measure_start_ns=start_ns,
        measure_end_ns=end_ns,
    )


def judged(sets: Iterable[RecordSet]) -> list[Judgement]:
    """The judgements on these sets."""
    return [
        Judgement(records.name, tuple(check.name for check in certificate_of(records).checks if not check.ok))
        for records in sets
    ]


def main() -> None:
    """Run the command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--all", action="store_true", help="a line for each set, not only for wrong judgements"
    )
    every = parser.parse_args().all
    caught, passed = judged(forged()), judged(honest())
    for title, judgements, right in (("forged", caught, True), ("honest", passed, False)):
        for judgement in judgements:
            if every or judgement.refused != right:
                mark = "ok" if judgement.refused == right else "WRONG"
                print(f"{mark:6}{title:8}{judgement.name:72}{', '.join(judgement.checks) or '-'}")
    counts = Counter(check for judgement in caught for check in judgement.checks)
    alone = Counter(judgement.checks[0] for judgement in caught if len(judgement.checks) == 1)
    print(f"\n{'check':24}{'forged sets caught':>20}{'by it alone':>14}")
    for check, count in counts.most_common():
        print(f"{check:24}{count:20}{alone[check]:14}")
    refused, wrong = sum(j.refused for j in caught), sum(j.refused for j in passed)
    print(f"\nforged: {refused} of {len(caught)} caught    honest: {wrong} of {len(passed)} refused")
    raise SystemExit(int(refused != len(caught) or wrong > 0))


if __name__ == "__main__":
    main()
