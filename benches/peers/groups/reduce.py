"""Full reductions. All peers give the same result every time."""
import torch

import tk
from common import NAME, compiled, cublas, cupy, f16, f32, f64, i64, new, pow2, rn, scale, size, sms
from gk import Gk
from harness import Problem


def rows(h):
    import triton.language as tl

    def two_stage(x, y, o, n, dot, acc, k, b, w):
        part = new(k * sms(), dt=f64 if acc == tl.float64 else f32)
        s1 = h.triton(tk.sum_part, (k * sms(),), x, y, part, n, DOT=dot, ACC=acc, B=b, num_warps=w)
        s2 = h.triton(tk.sum_fin, (1,), part, o, k * sms(), B=pow2(k * sms()), num_warps=8, out=o)
        return lambda: (s1(), s2())[1]

    def tri(n, dt, dot=False):
        acc = tl.float64 if dt == f64 else tl.float32
        return [(f"{k}/SM B{b} w{w}", lambda x, y, o, k=k, b=b, w=w: two_stage(x, y, o, n, dot, acc, k, b, w))
                for k, b, w in ((4, 4096, 8), (8, 4096, 8), (8, 2048, 4))]

    def cupy_call(x, what):
        cp = cupy(h)
        xc = cp.asarray(x)

        def call():
            cp._core.set_routine_accelerators(["cub"])
            cp._core.set_reduction_accelerators(["cub"])
            return getattr(xc, what)()
        return call

    blas = cublas(h)
    # A sum of f16 is f32; torch and CuPy round it to f16, which is no more work.
    csum = compiled(lambda x: torch.sum(x, dtype=f64 if x.dtype == f64 else f32))
    cdot = compiled(lambda x, y: torch.sum(x.float() * y.float()) if x.dtype == f16 else torch.sum(x * y))
    for dt in (f32, f16, f64):
        t, wide = NAME[dt], f64 if dt == f64 else f32
        half = dt == f16
        for n in (8_000_000, 1 << 28):
            n = scale(n)
            label = "8M" if n == 8_000_000 else size(n)

            def cub(name, n=n):
                return lambda x, y, o: h.cub(f"cub_{name}_{t}", x, (o,), n)
            yield Problem("sum", label, t, lambda: (x := rn(n, dt=dt), x, new(1, dt=wide)), {
                "CUB": cub("sum"),
                "torch": lambda x, y, o: lambda: torch.sum(x, dtype=wide),
                "compile": lambda x, y, o: lambda: csum(x),
                "cupy cub": lambda x, y, o: cupy_call(x, "sum"),
                "triton": tri(n, dt),
            }, bytes=n * dt.itemsize, bceil="read", ref=lambda x, y, o: lambda: x.sum(dtype=f64), norm=n**.5, tol=1e-2,
                gk=Gk("reduce.gk", f"sum_{t}", lambda x, y, o: dict(x=x)), target=(("peers", 1.0),))
            dot_peers = {
                "cuBLAS": lambda x, y, o: blas.dot(x, y, o if not half else new(1, dt=f16)),
                "torch": lambda x, y, o: lambda: torch.dot(x, y),
                "compile": lambda x, y, o: lambda: cdot(x, y),
                "triton": tri(n, dt, dot=True),
            }
            yield Problem("dot", label, t, lambda: (rn(n, dt=dt), rn(n, dt=dt), new(1, dt=wide)), dot_peers,
                          bytes=2 * n * dt.itemsize, bceil="read",
                          ref=lambda x, y, o: lambda: (x.double() * y.double()).sum(), norm=n**.5,
                          tol=1e-2 if half else 1e-3, gk=Gk("reduce.gk", f"dot_{t}", lambda x, y, o: dict(x=x, y=y)),
                          target=(("peers", 1.0),))
            yield Problem("max", label, t, lambda: (x := rn(n, dt=dt), x, new(1, dt=dt)), {
                "CUB": cub("max"),
                "torch": lambda x, y, o: lambda: torch.max(x),
                "cupy cub": lambda x, y, o: cupy_call(x, "max"),
            }, bytes=n * dt.itemsize, bceil="read", ref=lambda x, y, o: lambda: torch.max(x), tol=0,
                gk=Gk("reduce.gk", f"max_{t}", lambda x, y, o: dict(x=x)), target=(("peers", 1.0),))
            at = []

            def inputs():
                x = rn(n, dt=dt)
                at[:] = at or [x]  # the index found in the first set is checked by the value it points to
                return x, new(1, dt=dt), new(1, dt=i64)
            yield Problem("argmax", label, t, inputs, {
                "CUB": lambda x, v, o: h.cub(f"cub_argmax_{t}", x, (v, o), n),
                "torch": lambda x, v, o: lambda: torch.argmax(x),
                "cupy cub": lambda x, v, o: cupy_call(x, "argmax"),
            }, bytes=n * dt.itemsize, bceil="read", ref=lambda x, v, o: lambda: torch.max(x), tol=0,
                post=lambda i: at[0][i.long().reshape(-1)],
                gk=Gk("reduce.gk", f"argmax_{t}", lambda x, v, o: dict(x=x)), target=(("peers", 1.0),))
