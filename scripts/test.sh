#!/bin/sh
# The types and the suite; with `long` behind the folder of programs, what the suite leaves out. What only has to be right
# runs several files at a time, more than there are cores, for some of it waits; what measures, or takes a machine, alone.
set -eu
bin=$1
which=${2:-usual}
export INFERBENCH_SUITE=1
# As in the Makefile: hundreds of processes, none of which compiles again what another has compiled.
unset PYTHONDONTWRITEBYTECODE
# What is dear to make and the same for all tests: made once, for all parts.
INFERBENCH_TEST_SHARED=$(mktemp -d)
export INFERBENCH_TEST_SHARED
checker=
trap '[ -z "$checker" ] || kill "$checker" || true; rm -rf "$INFERBENCH_TEST_SHARED"' EXIT
trap 'exit 130' INT TERM
# The longest begin, so that no process waits long for another at the end.
pure="tests/security/corpus/test_answers_without_end.py tests/security/corpus/test_servers.py
    tests/unit/regression/test_promises.py tests/unit/running/test_child.py tests/test_architecture.py"
# Loads whose timing matters, and what sends signals to its own process: one by one.
alone="tests/integration/test_load_amid.py tests/integration/test_load_mlperf.py
    tests/integration/test_stage_breakdown.py tests/integration/test_stage_border.py tests/e2e/test_recommend.py tests/e2e/test_run.py"
# Real servers, databases and whole systems, each test's own: they mostly wait, for a start or for one another. A file's
# tests share what they started.
together="tests/integration/test_scheduled_jobs.py tests/e2e/test_web_system.py tests/contract/test_backends.py
    tests/integration/test_three_hosts.py tests/e2e/test_faults.py tests/e2e/test_web_pages.py
    tests/integration/test_training_on_two_hosts.py tests/integration/test_interleaved.py
    tests/integration/test_perfdb_embedded.py tests/contract/test_clients.py"

# files FOLDER...: those that no list names yet
files() {
    for file in $(find "$@" -name 'test_*.py' | sort); do
        case " $(echo $pure $alone $together) " in
            *" $file "*) ;;
            *) echo "$file" ;;
        esac
    done
}
# Last come folders of many short files, for the same reason.
pure="$pure $(files tests/security tests/unit)"
together="$together $(files tests/docs tests/e2e tests/contract tests/integration)"

# A failure counts if it comes twice, and the first one is shown with its traceback: one unlucky moment of a shared machine decides nothing.
# What is skipped is summed up at the end of each part, one line a reason, with the command that removes it.
# A process that is gone names its test and ends the part: one in its place could wait for work for ever.
# A file's tests run in one process, which alone imports what they need; see tests/file_groups.py.
options="--reruns 1 --rerun-show-tracebacks -rfE"
several="-n 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder"
if [ "$which" = long ]; then
    "$bin/pytest" $pure $together -m long $several --durations 30 --reruns-delay 3 $options
    "$bin/pytest" $alone -m long --durations 30 --reruns-delay 3 $options
    exit
fi
# The types are checked beside lint and the first part: on one core alone they would keep the other waiting for minutes.
types=$INFERBENCH_TEST_SHARED/types.txt
"$bin/mypy" >"$types" 2>&1 &
checker=$!
make --no-print-directory lint
# Once over all that the first part imports: each of its processes would compile it for itself. What is wrong it will say.
"$bin/pytest" $pure --collect-only -qq >/dev/null 2>&1 || true
"$bin/pytest" $pure -m "not long" $several --durations 10 --reruns-delay 1 $options
code=0
wait "$checker" || code=$?
checker=
cat "$types"
[ "$code" = 0 ] || exit "$code"
"$bin/pytest" $together -m "not long" $several --durations 30 --reruns-delay 3 $options
"$bin/pytest" $alone -m "not long" --durations 30 --reruns-delay 3 $options
