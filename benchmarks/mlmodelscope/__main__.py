"""The gates of what MLModelScope and XSP have here: lists them, or runs them one after the other.

    python -m benchmarks.mlmodelscope                       # each with what it proves, how long it takes, its command
    python -m benchmarks.mlmodelscope --run NAME [NAME...]  # or all

What each prints goes where this does; at the end stands a table. Exit code 0 if all that were run have passed, 1 if one
failed, 2 if none failed and one was not judged (undecided, or something that it takes is not here). All of them take
most of a day. Those that measure times want a machine that nobody else uses.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.mlmodelscope.gates import GATES, Verdict, ran, summed_up


def main() -> int:
    """List or run; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", nargs="+", default=[], metavar="NAME", help="Gates by name, or all.")
    names: list[str] = parser.parse_args().run
    if unknown := set(names) - {"all", *GATES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(GATES)}, and all")
    if not names:
        for name, gate in GATES.items():
            print(f"{name:18} {gate.minutes:>4} min  {gate.proves}: {gate.command}")
        return 0
    wanted = list(GATES) if "all" in names else list(dict.fromkeys(names))
    verdicts: dict[str, Verdict] = {}
    lines = []
    try:
        for name in wanted:
            print(f"\n== {name}: {GATES[name].proves}\n   {GATES[name].command}", flush=True)
            begun = time.monotonic()
            verdicts[name] = ran(GATES[name])
            lines.append(f"{name:18} {verdicts[name]:10} {(time.monotonic() - begun) / 60:6.1f} min")
    except KeyboardInterrupt:  # those that are left are not judged; the table is of all
        print()
    for name in wanted[len(lines) :]:
        verdicts[name] = "not judged"
        lines.append(f"{name:18} not judged")
    print("\n" + "\n".join(lines))
    return summed_up(list(verdicts.values()))


if __name__ == "__main__":
    raise SystemExit(main())
