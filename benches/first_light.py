#!/usr/bin/env python3
"""Measures gpukc's kernels against the best copy kernel and cuBLAS, in one run on one GPU, and prints docs/performance.md's table.

    python3 benches/first_light.py --gpukc target/release/gpukc [--json OUT]

Needs torch with CUDA and CuPy. gpukc's times come from `gpukc bench` (CUDA events, inputs resident, random data); the peers
are timed here in the same way. Percentages are of the best copy kernel at 1 GiB of this run, counting each input and
result once.
"""
import argparse, json, pathlib, statistics, subprocess, sys, time

import cupy
import torch

HERE = pathlib.Path(__file__).resolve().parent.parent
COPY = r"""
extern "C" __global__ void copy(const float4* __restrict__ x, float4* __restrict__ y, long long n) {
    long long i = (long long)blockIdx.x * (UNROLL * 256) + threadIdx.x;
    float4 v[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; u++) if (i + u * 256 < n) v[u] = x[i + u * 256];
    #pragma unroll
    for (int u = 0; u < UNROLL; u++) if (i + u * 256 < n) y[i + u * 256] = v[u];
}
"""


def events(run, count=30):
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(count):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e3)
    return statistics.median(times)


def copy_rate():
    n = 1 << 28
    x, y = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    best = events(lambda: y.copy_(x))
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    for unroll in (1, 2, 4):
        kernel = cupy.RawKernel(COPY.replace("UNROLL", str(unroll)), "copy", options=("--std=c++17",))
        grid = ((n // 4 + unroll * 256 - 1) // (unroll * 256),)
        with stream:
            best = min(best, events(lambda: kernel(grid, (256,), (x.data_ptr(), y.data_ptr(), n // 4))))
    return 2 * 4 * n / best / 1e3  # GB/s


def gpukc(path, file, ins, kernel=None):
    command = [path, "bench", str(HERE / "examples" / file), "--format", "json"]
    command += ["--kernel", kernel] if kernel else []
    for name, source in ins.items():
        command += ["--in", f"{name}={source}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{file}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def matmul_peer(m, k, n):
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
    return events(lambda: torch.mm(a, b), 10)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--gpukc", default=str(HERE / "target/release/gpukc"))
    arguments.add_argument("--json")
    options = arguments.parse_args()
    version = subprocess.run([options.gpukc, "--version"], capture_output=True, text=True).stdout.strip().splitlines()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CuPy {cupy.__version__}; {'; '.join(version)}")
    copy = copy_rate()
    print(f"best copy kernel at 1 GiB: {copy:.0f} GB/s\n")
    rows = []
    work = [
        ("vector add 2^28 f32", "vector_add.gk", dict(a="rand:268435456:1", b="rand:268435456:2"), 3 * 4 * 2**28, 90),
        ("vector add 10^7 f32", "vector_add.gk", dict(a="rand:10000000:1", b="rand:10000000:2"), 3 * 4 * 10**7, None),
        ("sum 2^28 f32", "reduce.gk", dict(x="rand:268435456"), 4 * 2**28, 90),
        ("sum 8*10^6 f32", "reduce.gk", dict(x="rand:8000000"), 4 * 8 * 10**6, None),
        ("transpose 8192x8192 f32", "transpose.gk", dict(x="rand:8192x8192"), 2 * 4 * 8192**2, 80),
        ("transpose 4093x8191 f32", "transpose.gk", dict(x="rand:4093x8191"), 2 * 4 * 4093 * 8191, None),
        ("softmax 4096x4096 f32", "softmax.gk", dict(x="randn:4096x4096"), 2 * 4 * 4096**2, 80),
        ("softmax 65536x128 f32", "softmax.gk", dict(x="randn:65536x128"), 2 * 4 * 65536 * 128, None),
        ("softmax 128x131072 f32", "softmax.gk", dict(x="randn:128x131072"), 2 * 4 * 128 * 131072, None),
        ("layernorm 4096x4096 f32", "layernorm.gk", dict(x="randn:4096x4096", g="rand:4096", b="rand:4096", eps="1e-5"), 2 * 4 * 4096**2, None),
        ("row and column sums 4096x4096 f32", "sums.gk", dict(x="rand:4096x4096"), 2 * 4 * 4096**2, None),
    ]
    print("| work | time | GB/s | of copy | asked |\n|---|---|---|---|---|")
    for label, file, ins, size, asked in work:
        row = gpukc(options.gpukc, file, ins)
        if row is None:
            continue
        rate = size / row["median_us"] / 1e3
        rows.append({"work": label, **row})
        print(f"| {label} | {row['median_us']:.1f} µs | {rate:.0f} | {100 * rate / copy:.0f}% | {f'{asked}%' if asked else ''} |", flush=True)
    print("\n| work | gpukc | cuBLAS | of cuBLAS | asked |\n|---|---|---|---|---|")
    for m, k, n, asked in ((4096, 4096, 4096, 60), (1024, 1024, 1024, None), (4095, 4097, 4093, None), (16, 8192, 8192, None)):
        row = gpukc(options.gpukc, "matmul.gk", dict(a=f"randn:{m}x{k}:1", b=f"randn:{k}x{n}:2"))
        if row is None:
            continue
        peer = matmul_peer(m, k, n)
        flops = 2 * m * k * n
        rows.append({"work": f"matmul {m}x{k}x{n}", "cublas_us": peer, **row})
        print(f"| matmul {m}x{k}x{n} f32 | {row['median_us']:.0f} µs, {flops / row['median_us'] / 1e6:.1f} TFLOP/s | {peer:.0f} µs, {flops / peer / 1e6:.1f} TFLOP/s | {100 * peer / row['median_us']:.0f}% | {f'{asked}%' if asked else ''} |", flush=True)
    host = gpukc(options.gpukc, "vector_add.gk", dict(a="rand:1000:1", b="rand:1000:2"))
    print(f"\nhost time of a launch (vector add of 1000): {host['host_us']:.2f} µs" if host else "")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
