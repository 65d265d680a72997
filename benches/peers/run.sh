#!/bin/bash
# Measures gpukc and its peers in one run on one GPU, checks every result, and writes the table of docs/performance.md.
#
#   benches/peers/run.sh [--gpukc PATH] [--rows REGEX] [--only gpukc --kept FILE.json] [--seconds N] [GROUP...]
#
# Groups: ceil elem reduce rows columns transpose stencil scan indexed matvec matmul, the table's; others, the survey, or a part of
# it, such as others.rows. Without any, the table's (about 10 minutes) and, with the time that is left, the survey; then
# docs/performance.md is written. Needs nvcc, and python3 with torch, triton, CuPy and NumPy. --help says more.
#
# Writes $OUT/peers.json (everything), peers.md (the tables), peers.txt (a line a measurement), peers.log (the groups' stderr).
#   OUT         where to (benches/peers/out)
#   PEERS_DIR   caches and the build, kept between runs (/tmp/gpukc-peers)
# PEERS_REHEARSAL=1 tries kernels and references on small arrays, without a GPU; its times mean nothing.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PEERS_T0=$(date +%s.%N) PEERS_DIR=${PEERS_DIR:-/tmp/gpukc-peers} OUT=${OUT:-$here/out} PYTHONUNBUFFERED=1
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUT" "$PEERS_DIR"
OUT=$(cd "$OUT" && pwd) PEERS_DIR=$(cd "$PEERS_DIR" && pwd)
export PEERS_BUILD=$PEERS_DIR/build
mkdir -p "$PEERS_BUILD"
export TRITON_CACHE_DIR=$PEERS_DIR/triton TORCHINDUCTOR_CACHE_DIR=$PEERS_DIR/inductor CUPY_CACHE_DIR=$PEERS_DIR/cupy
export GPUKC_CACHE_DIR=${GPUKC_CACHE_DIR:-$PEERS_DIR/gpukc}
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} TOKENIZERS_PARALLELISM=false

nvcc=$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")
top=$(dirname "$(dirname "$nvcc")")
export PATH=$PATH:$top/bin
link="-cudadevrt none -L$top/lib64 -L$top/lib"

build() {  # beside the Python part, which waits for done or failed; kept if the sources have not changed
  cd "$PEERS_BUILD" || return 1
  local sum; sum=$(cat "$here"/*.cu | cksum)
  [ -e done ] && [ "$(cat done)" = "$sum" ] && return 0
  rm -f done failed ./*.o
  local flags="-O3 -std=c++17 -arch=sm_90 -Xcompiler -fPIC -c" t=$SECONDS
  nvcc $flags "$here/kernels.cu" -o kernels.o &
  for p in 0 1 2 3 4 5; do nvcc $flags -DPART=$p "$here/cubs.cu" -o cub$p.o & done
  wait  # a part that failed is left out; its cases then record an undefined symbol
  if [ -e kernels.o ] && nvcc -shared -arch=sm_90 $link ./*.o -o libpeers.so; then
    echo "built $(ls ./*.o | wc -l) of 7 parts in $((SECONDS - t))s"; echo "$sum" > done
  else
    echo "BUILD FAILED"; touch failed
  fi
}
rm -f "$PEERS_BUILD/failed"
if [ "${PEERS_REHEARSAL:-}" != 1 ]; then build; fi > "$PEERS_DIR/build.log" 2>&1 &
builder=$!
python3 "$here/peers.py" "$@"
rc=$?
wait $builder
grep -E "BUILD FAILED|error" "$PEERS_DIR/build.log" | head -3
exit $rc
