#!/usr/bin/env bash
# Every schedule of every program here against the reference, on this machine's GPU, in one process; then, where
# compute-sanitizer is found, again under each of its tools, with fewer calls.
#
#   verify.sh GPUKC
set -uo pipefail
gpukc=$1
files=(tests/cases/*.gk tests/emulated/*.gk examples/*.gk)
failed=0
echo "== verify"
"$gpukc" verify --device cuda --seconds 240 "${files[@]}" || failed=1

sanitizer=$(command -v compute-sanitizer)
for folder in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda /opt/cuda; do
  for place in "$folder/bin/compute-sanitizer" "$folder/compute-sanitizer/compute-sanitizer"; do
    [ -z "$sanitizer" ] && [ -x "$place" ] && sanitizer=$place
  done
done
if [ -z "$sanitizer" ]; then
  echo "== no compute-sanitizer here: neither on the path nor below \$CUDA_PATH, \$CUDA_HOME, /usr/local/cuda, /opt/cuda"
  exit $failed
fi
for tool in memcheck racecheck initcheck synccheck; do
  echo "== compute-sanitizer --tool $tool"
  "$sanitizer" --tool "$tool" --error-exitcode 1 "$gpukc" verify --device cuda --calls 6 --seconds 240 "${files[@]}" || failed=1
done
exit $failed
