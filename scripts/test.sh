#!/bin/sh
# The whole suite. What is pure and what only has to be right runs two at a time; what measures, or takes a machine, alone.
set -eu
bin=$1
export INFERBENCH_SUITE=1
# As in the Makefile: hundreds of processes, none of which compiles again what another has compiled.
unset PYTHONDONTWRITEBYTECODE
# A failure counts if it comes twice, and the first one is shown (R): one unlucky moment of a shared machine decides nothing.
# What is skipped is summed up at the end of each part, one line a reason, with the command that removes it.
"$bin/pytest" tests/unit tests/security tests/test_architecture.py -n 2 --dist loadgroup --durations 10 --reruns 1 --reruns-delay 1 -rfER
# Loads whose timing matters: one by one.
alone="tests/integration/test_load_faults.py tests/integration/test_load_mlperf.py
    tests/integration/test_stage_breakdown.py tests/e2e/test_interference.py
    tests/e2e/test_recommend.py tests/e2e/test_run.py"
# Whole systems, of a dozen processes each, that wait for one another most of the time: two at once.
systems="tests/integration/test_scheduled_jobs.py tests/e2e/test_web_system.py
    tests/integration/test_two_schedulers.py tests/integration/test_routes_by_role.py"
# Real servers and databases, each test's own: starting one is mostly waiting. A file's tests share what they started.
# The longest begin, so that no part waits long for another at the end.
together="tests/e2e/test_faults.py tests/contract/test_backends.py tests/contract/test_clients.py
    tests/integration/test_interleaved.py tests/integration/test_training.py
    tests/integration/test_perfdb_embedded.py tests/e2e/test_web_pages.py"
for file in $(find tests/contract tests/integration tests/e2e tests/docs -name 'test_*.py' | sort); do
    case " $(echo $alone $systems $together) " in
        *" $file "*) ;;
        *) together="$together $file" ;;
    esac
done
several() { # how many at once, and the files
    processes=$1
    shift
    "$bin/pytest" "$@" -n "$processes" --dist loadfile --no-loadscope-reorder \
        --durations 30 --reruns 1 --reruns-delay 3 -rfER
}
several 3 $together
several 2 $systems
"$bin/pytest" $alone --durations 30 --reruns 1 --reruns-delay 3 -rfER
