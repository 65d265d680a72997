"""Matrix products in f32."""
import torch

import tk
from common import cdiv, new, rn, scale
from gk import Gk
from harness import Problem

TILES = ((64, 64, 16, 3, 4), (128, 64, 16, 3, 8), (128, 128, 16, 3, 8))  # BM, BN, BK, stages, warps
THIN = ((16, 64, 32, 3, 4),)


def rows(h):
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = False
    for m, k, n, asked in ((4096, 4096, 4096, 0.6), (1024, 1024, 1024, None), (4095, 4097, 4093, None), (16, 8192, 8192, None)):
        m, k, n = scale(m), scale(k), scale(n)

        def tri(bm, bn, bk, stages, warps):
            return lambda a, b, c: h.triton(tk.mm_ptr, (cdiv(m, bm) * cdiv(n, bn), 1), a, b, c, m, n, k, BM=bm, BN=bn, BK=bk,
                                            GM=8, PREC="ieee", num_stages=stages, num_warps=warps, out=c)
        yield Problem("matmul", f"{m}x{k}x{n}", "f32", lambda: (rn(m, k), rn(k, n), new(m, n)), {
            "torch": lambda a, b, c: lambda: torch.mm(a, b, out=c),
            "triton": [("%dx%dx%d s%d w%d" % t, tri(*t)) for t in (THIN if m == 16 else TILES)],
        }, bytes=4 * (m * k + k * n + m * n), bceil="read", flops=2.0 * m * n * k,
            ref=lambda a, b, c: lambda: a.double() @ b.double(), tol=3e-5,
            gk=Gk("products.gk", "matmul", lambda a, b, c: dict(a=a, b=b), "c"), target=(("torch", asked),) if asked else ())
