"""Reductions along the last axis, and what is computed of them in the same pass."""
import torch
import torch.nn.functional as F

import tk
from common import cdiv, compiled, new, pow2, rn, scale
from gk import Gk
from harness import Problem

WORKS = ("rowsum", "softmax", "layernorm", "rmsnorm")
SHAPES = ((4096, 4096), (65536, 128), (128, 131072), (1, 1 << 24), (1 << 20, 16))


def target(work, R, C):
    if (R, C) == (128, 131072):
        return (("peers", 1.1),)
    return (("peers", 0.95 if work == "softmax" and (R, C) == (65536, 128) else 1.0),)


def rows(h):
    fns = (lambda x, w, b: torch.sum(x, 1),
           lambda x, w, b: torch.softmax(x, 1),
           lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
           lambda x, w, b: F.rms_norm(x, w.shape, w, 1e-5))
    comp = [compiled(f) for f in fns]
    given = (lambda x, w, b, o: dict(x=x), lambda x, w, b, o: dict(x=x), lambda x, w, b, o: dict(x=x, w=w, b=b),
             lambda x, w, b, o: dict(x=x, w=w))
    for R0, C0 in SHAPES:
        R, C = scale(R0), scale(C0)
        name = f"{R}x{C}" if C < 1 << 20 else f"{R}x2^24"
        for op, work in enumerate(WORKS):
            def inputs():
                x = rn(R, C)
                w, b = (rn(C), rn(C)) if op >= 2 else (x, x)
                return x, w, b, new(R) if op == 0 else new(R, C)

            def tile(m, w):
                return lambda x, g, b, o: h.triton(tk.row_tile, (cdiv(R, m),), x, g, b, o, R, C, OP=op, BM=m,
                                                   BN=pow2(C), num_warps=w, out=o)

            def loop(n, w):
                return lambda x, g, b, o: h.triton(tk.row_loop, (R,), x, g, b, o, R, C, OP=op, B=n, num_warps=w, out=o)
            if C > 16384:
                tri = [(f"loop {n} w{w}", loop(n, w)) for n, w in ((4096, 8), (8192, 16))]
            else:
                ms = ((1, 4), (1, 8)) if C > 1024 else ((pow2(max(1, 1024 // C)), 4), (pow2(max(1, 4096 // C)), 8))
                tri = [(f"{m} rows w{w}", tile(m, w)) for m, w in ms]
            peers = {"eager": lambda x, w, b, o: lambda: fns[op](x, w, b),
                     "compile": lambda x, w, b, o: lambda: comp[op](x, w, b)}
            if R0 > 1:  # a single block for the only row takes milliseconds
                peers["triton"] = tri
            yield Problem(work, name, "f32", inputs, peers,
                          bytes=4 * ((R * C + R), 2 * R * C, 2 * R * C + 2 * C, 2 * R * C + C)[op],
                          bceil="copy" if op else "read",
                          ref=lambda x, w, b, o: lambda: fns[op](x.double(), w.double(), b.double()),
                          norm=0 if op else (R * C)**.5, gk=Gk("rows.gk", work, given[op], "y"), target=target(work, R0, C0))
