#!/bin/sh
# The whole suite. What is pure runs two at a time; what measures or starts servers, alone.
set -eu
bin=$1
export INFERBENCH_SUITE=1
# A failure counts if it comes twice, and the first one is shown (R): one unlucky moment of a shared machine decides nothing.
"$bin/pytest" tests/unit tests/test_architecture.py -n 2 --dist loadgroup --durations 10 --reruns 1 --reruns-delay 1 -rR
# Real servers and measurements, one at a time.
"$bin/pytest" tests/contract tests/integration tests/e2e tests/docs --durations 30 --reruns 1 --reruns-delay 3 -rR
