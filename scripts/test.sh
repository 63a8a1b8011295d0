#!/bin/sh
# The types and the whole suite. What only has to be right runs several files at a time, more than there are cores, for it
# mostly waits; what measures, or takes a machine, alone.
set -eu
bin=$1
export INFERBENCH_SUITE=1
# As in the Makefile: hundreds of processes, none of which compiles again what another has compiled.
unset PYTHONDONTWRITEBYTECODE
# What an earlier run leaves behind, which most tests of whole runs start from: made once, for all parts.
INFERBENCH_TEST_SHARED=$(mktemp -d)
export INFERBENCH_TEST_SHARED
# The types are checked beside the first part: on one core alone they would keep the other waiting for minutes.
types=$INFERBENCH_TEST_SHARED/types.txt
"$bin/mypy" >"$types" 2>&1 &
checker=$!
trap '[ -z "$checker" ] || kill "$checker" || true; rm -rf "$INFERBENCH_TEST_SHARED"' EXIT
trap 'exit 130' INT TERM
# A failure counts if it comes twice, and the first one is shown with its traceback: one unlucky moment of a shared machine decides nothing.
# What is skipped is summed up at the end of each part, one line a reason, with the command that removes it.
# A process that is gone names its test and ends the part: one in its place could wait for work for ever.
# A file's tests run in one process, which alone imports what they need. The longest files begin, so that no process waits
# long for the other at the end.
pure="tests/security/corpus/test_answers_without_end.py tests/security/corpus/test_servers.py
    tests/unit/regression/test_promises.py tests/unit/running/test_child.py tests/test_architecture.py"
for file in $(find tests/unit tests/security -name 'test_*.py' | sort); do
    case " $(echo $pure) " in
        *" $file "*) ;;
        *) pure="$pure $file" ;;
    esac
done
"$bin/pytest" $pure -n 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder \
    --durations 10 --reruns 1 --reruns-delay 1 --rerun-show-tracebacks -rfE
code=0
wait "$checker" || code=$?
checker=
cat "$types"
[ "$code" = 0 ] || exit "$code"
# Loads whose timing matters, and what sends signals to its own process: one by one.
alone="tests/integration/test_load_faults.py tests/integration/test_load_mlperf.py
    tests/integration/test_stage_breakdown.py tests/integration/test_stage_border.py tests/e2e/test_recommend.py tests/e2e/test_run.py"
# Real servers, databases and whole systems, each test's own: they mostly wait, for a start or for one another. A file's
# tests share what they started. The longest begin, so that no process waits long for another at the end.
together="tests/integration/test_scheduled_jobs.py tests/e2e/test_faults.py tests/contract/test_backends.py
    tests/e2e/test_web_system.py tests/contract/test_clients.py tests/integration/test_two_schedulers.py
    tests/integration/test_interleaved.py tests/integration/test_training.py
    tests/integration/test_perfdb_embedded.py tests/e2e/test_web_pages.py"
for file in $(find tests/contract tests/integration tests/e2e tests/docs -name 'test_*.py' | sort); do
    case " $(echo $alone $together) " in
        *" $file "*) ;;
        *) together="$together $file" ;;
    esac
done
"$bin/pytest" $together -n 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder \
    --durations 30 --reruns 1 --reruns-delay 3 --rerun-show-tracebacks -rfE
"$bin/pytest" $alone --durations 30 --reruns 1 --reruns-delay 3 --rerun-show-tracebacks -rfE
