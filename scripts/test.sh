#!/bin/sh
# The whole suite. What is pure and what only has to be right runs two at a time; what measures, or takes a machine, alone.
set -eu
bin=$1
export INFERBENCH_SUITE=1
# As in the Makefile: hundreds of processes, none of which compiles again what another has compiled.
unset PYTHONDONTWRITEBYTECODE
# A failure counts if it comes twice, and the first one is shown (R): one unlucky moment of a shared machine decides nothing.
# What is skipped is summed up at the end of each part, one line a reason, with the command that removes it.
"$bin/pytest" tests/unit tests/test_architecture.py -n 2 --dist loadgroup --durations 10 --reruns 1 --reruns-delay 1 -rfER
# Loads whose timing matters, schedulers, whole systems.
alone="tests/integration/test_load_faults.py tests/integration/test_load_mlperf.py tests/integration/test_scheduled_jobs.py
    tests/integration/test_stage_breakdown.py tests/integration/test_worker_agent.py tests/e2e/test_interference.py
    tests/e2e/test_recommend.py tests/e2e/test_run.py tests/e2e/test_web_system.py"
ignored=
for file in $alone; do
    ignored="$ignored --ignore $file"
done
# Real servers and databases, each test's own: starting one is mostly waiting. A file's tests share what they started.
"$bin/pytest" tests/contract tests/integration tests/e2e tests/docs $ignored \
    -n 2 --dist loadfile --durations 30 --reruns 1 --reruns-delay 3 -rfER
"$bin/pytest" $alone --durations 30 --reruns 1 --reruns-delay 3 -rfER
