#!/usr/bin/env bash
# Every schedule of every program here against the reference, on this machine's GPU, in one process; then, where
# compute-sanitizer is found, again under each of its tools, with fewer calls.
#
#   verify.sh GPUKC [SECONDS [RUN...]]      SECONDS for each run, 240; RUNs: plain memcheck racecheck initcheck synccheck
#
# CALLS names the executable of benches/calls.rs, whose streams then run under memcheck as well.
set -uo pipefail
gpukc=$1
seconds=${2:-240}
runs=("${@:3}")
[ ${#runs[@]} -eq 0 ] && runs=(plain memcheck racecheck initcheck synccheck)
files=(tests/cases/*.gk tests/emulated/*.gk examples/*.gk)
failed=0

sanitizer=$(command -v compute-sanitizer)
for folder in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda /opt/cuda; do
  for place in "$folder/bin/compute-sanitizer" "$folder/compute-sanitizer/compute-sanitizer"; do
    [ -z "$sanitizer" ] && [ -x "$place" ] && sanitizer=$place
  done
done
for run in "${runs[@]}"; do
  echo "== verify: $run"
  if [ "$run" = plain ]; then
    "$gpukc" verify --device cuda --seconds "$seconds" "${files[@]}" || failed=1
  elif [ -z "$sanitizer" ]; then
    echo "no compute-sanitizer here: neither on the path nor below \$CUDA_PATH, \$CUDA_HOME, /usr/local/cuda, /opt/cuda"
  else
    "$sanitizer" --tool "$run" --error-exitcode 1 "$gpukc" verify --device cuda --calls 6 --seconds "$seconds" "${files[@]}" || failed=1
    if [ "$run" = memcheck ] && [ -n "${CALLS:-}" ]; then
      "$sanitizer" --tool memcheck --error-exitcode 1 "$CALLS" streams || failed=1
    fi
  fi
done
exit $failed
