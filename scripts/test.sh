#!/bin/sh
# The whole suite. What is pure runs two at a time; what measures or starts servers, alone.
set -eu
bin=$1
"$bin/pytest" tests/unit tests/test_architecture.py -n 2 --dist loadgroup --durations 10
# Real servers on a machine that others use: a failure counts if it comes twice, and the first one is shown (R).
"$bin/pytest" tests/contract tests/integration tests/e2e --durations 25 --reruns 1 --reruns-delay 3 -rR
