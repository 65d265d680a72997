"""Element-wise chains."""
import torch
import torch.nn.functional as F

import tk
from common import NAME, cdiv, compiled, cupy, f16, f32, new, rn, scale, size
from gk import Gk
from harness import Problem

A = 1.25
WORKS = ("add", "saxpy", "gelu(ax+y)z")


def rows(h):
    eager = (lambda x, y, z, o: torch.add(x, y, out=o),
             lambda x, y, z, o: torch.add(y, x, alpha=A, out=o),
             lambda x, y, z, o: torch.mul(F.gelu(torch.add(y, x, alpha=A)), z, out=o))
    comp = (compiled(lambda x, y, z, o: o.copy_(x + y)),
            compiled(lambda x, y, z, o: o.copy_(A * x + y)),
            compiled(lambda x, y, z, o: o.copy_(F.gelu(A * x + y) * z)))
    exact = (lambda x, y, z: x.float() + y.float(),
             lambda x, y, z: A * x.float() + y.float(),
             lambda x, y, z: F.gelu(A * x.float() + y.float()) * z.float())
    code = ("o = (T)((float)x + (float)y)", "o = (T)(a * (float)x + (float)y)",
            "float v = a * (float)x + (float)y; o = (T)(0.5f * v * (1.0f + erff(v * 0.70710678f)) * (float)z)")
    kernels = {}

    def cupy_call(op, x, y, z, o):
        cp = cupy(h)
        if op not in kernels:
            kernels[op] = cp.ElementwiseKernel("T x, T y, T z, float32 a", "T o", code[op], f"peer_ew{op}")
        k, args = kernels[op], [cp.asarray(t) for t in (x, y, z)]
        co = cp.asarray(o)

        def call():
            k(*args, A, co)
            return o
        return call

    for dt in (f32, f16):
        for n in (1 << 28, 10**7, 1 << 20, 1 << 13):
            n = scale(n)
            for op, work in enumerate(WORKS):
                def inputs():
                    x, y = rn(n, dt=dt), rn(n, dt=dt)
                    return x, y, rn(n, dt=dt) if op == 2 else x, new(n, dt=dt)

                def given(x, y, z, o):
                    return dict(x=x, y=y, **({"a": A} if op else {}), **({"z": z} if op == 2 else {}))
                kernel = ("add", "saxpy", "gelu")[op]
                yield Problem(work, size(n), NAME[dt], inputs, {
                    "eager": lambda x, y, z, o: lambda: (eager[op](x, y, z, o), o)[1],
                    "compile": lambda x, y, z, o: lambda: (comp[op](x, y, z, o), o)[1],
                    "triton": [(f"B{b} w{w}", lambda x, y, z, o, b=b, w=w: h.triton(
                        tk.ew, (cdiv(n, b),), x, y, z, o, A, n, OP=op, B=b, num_warps=w, out=o))
                        for b, w in ((1024, 4), (4096, 8))],
                    "cupy": lambda x, y, z, o: cupy_call(op, x, y, z, o),
                    "C++ 16B": lambda x, y, z, o: h.c("ew", x, y, z, o, A, n, int(dt == f16), op, 1, out=o),
                }, bytes=(4 if op == 2 else 3) * n * dt.itemsize, ref=lambda x, y, z, o: lambda: exact[op](x, y, z),
                    tol=1e-5 if dt == f32 else 2e-3, gk=Gk("elem.gk", f"{kernel}_{NAME[dt]}", given, "o"),
                    target=(("peers", 1.0),))
