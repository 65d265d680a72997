"""Stencils. The borders of Jacobi and heat stay as they are; their results begin as copies of the inputs."""
import torch
import torch.nn.functional as F

import tk
from common import DEV, NAME, cdiv, compiled, f32, new, ri, rn, scale, u8
from gk import Gk
from harness import Problem

K = 0.1


def rows(h):
    def jacobi(x, o):
        o[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return o

    def blur(x, o):
        p = F.pad(x[None, None].float(), (1, 1, 1, 1), mode="replicate")[0, 0]
        H, W = x.shape
        s = 0
        for i in range(3):
            for j in range(3):
                s = s + p[i:i + H, j:j + W]
        return o.copy_(((s + 4) / 9).floor() if x.dtype == u8 else s * (1.0 / 9.0))

    def heat(x, o):
        v = x[1:-1, 1:-1, 1:-1]
        o[1:-1, 1:-1, 1:-1] = v + K * (x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1]
                                       + x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:] - 6.0 * v)
        return o

    def tiles(kernel, W, H, D, *mid, **kw):
        return [(f"{m}x{n} w{w}", lambda x, o, m=m, n=n, w=w: h.triton(
            kernel, (cdiv(W, n), cdiv(H, m), D), x, o, *mid, BM=m, BN=n, num_warps=w, out=o, **kw))
            for m, n, w in ((1, 1024, 4), (8, 128, 4), (4, 256, 4))]

    cj, cb, ch = compiled(jacobi), compiled(blur), compiled(heat)
    H = W = scale(8192)
    yield Problem("jacobi5", f"{H}x{W}", "f32", lambda: (x := rn(H, W), x.clone()), {
        "eager": lambda x, o: lambda: jacobi(x, o),
        "compile": lambda x, o: lambda: cj(x, o),
        "triton": tiles(tk.jacobi5, W, H, 1, H, W),
        "C++": lambda x, o: h.c("jacobi5", x, o, H, W, out=o),
    }, bytes=8 * H * W, ref=lambda x, o: lambda: jacobi(x.double(), x.double()),
        gk=Gk("stencil.gk", "jacobi5", lambda x, o: dict(x=x), "o"), target=(("copy", 0.85),))
    D = H = W = scale(512)
    yield Problem("heat7", f"{D}^3", "f32", lambda: (x := rn(D, H, W), x.clone()), {
        "eager": lambda x, o: lambda: heat(x, o),
        "compile": lambda x, o: lambda: ch(x, o),
        "triton": tiles(tk.heat7, W, H, D, D, H, W, K),
        "C++": lambda x, o: h.c("heat7", x, o, D, H, W, K, out=o),
    }, bytes=8 * D * H * W, ref=lambda x, o: lambda: heat(x.double(), x.double()),
        gk=Gk("stencil.gk", "heat7", lambda x, o: dict(k=K, x=x), "o"), target=(("copy", 0.85),))
    H = W = scale(4096)
    for dt in (f32, u8):
        def inputs():
            return rn(H, W) if dt == f32 else ri(0, 256, H, W, dt=u8), new(H, W, dt=dt)
        yield Problem("blur3x3", f"{H}x{W}", NAME[dt], inputs, {
            "eager": lambda x, o: lambda: blur(x, o),
            "compile": lambda x, o: lambda: cb(x, o),
            "triton": tiles(tk.blur3, W, H, 1, H, W, U8=dt == u8),
            "C++": lambda x, o: h.c("blur3", x, o, H, W, int(dt == u8), out=o),
        }, bytes=2 * H * W * dt.itemsize, ref=lambda x, o: lambda: blur(x, torch.empty_like(o)),
            tol=1e-4 if dt == f32 else 5e-3, gk=Gk("stencil.gk", f"blur3x3_{NAME[dt]}", lambda x, o: dict(x=x), "o"),
            target=(("copy", 0.85 if dt == f32 else 0.45),))
