"""Permutations of matrices and images."""
from common import NAME, compiled, cublas, f16, f32, new, rn, scale
from gk import Gk
from harness import Problem


def rows(h):
    blas = cublas(h)
    ct, cp = compiled(lambda x: x.t().contiguous()), compiled(lambda x: x.permute(0, 2, 3, 1).contiguous())

    def tiles(dt, b, r, c):
        kinds = [("C++ tile", 0)] + ([("C++ pairs", 1)] if dt == f16 and r % 2 == 0 and c % 2 == 0 else [])
        return {k: lambda x, o, v=v: h.c("transpose", x, o, b, r, c, int(dt == f16), v, out=o) for k, v in kinds}

    for dt in (f32, f16):
        for R, C in ((8192, 8192), (4093, 8191)):
            R, C = scale(R), scale(C)
            peers = {"eager": lambda x, o: lambda: x.t().contiguous(),
                     "compile": lambda x, o: lambda: ct(x),
                     **tiles(dt, 1, R, C)}
            if dt == f32:
                peers["cuBLAS"] = lambda x, o: blas.geam_t(x, o)
            yield Problem("transpose", f"{R}x{C}", NAME[dt], lambda: (rn(R, C, dt=dt), new(C, R, dt=dt)), peers,
                          bytes=2 * R * C * dt.itemsize, ref=lambda x, o: lambda: x.t(), tol=0,
                          gk=Gk("transpose.gk", f"transpose_{NAME[dt]}", lambda x, o: dict(x=x), "y"),
                          target=(("peers", 1.0),))
        b, c, s = scale(32), scale(64), scale(128)
        yield Problem("NCHW to NHWC", f"{b},{c},{s},{s}", NAME[dt], lambda: (rn(b, c, s, s, dt=dt), new(b, s, s, c, dt=dt)), {
            "eager": lambda x, o: lambda: x.permute(0, 2, 3, 1).contiguous(),
            "compile": lambda x, o: lambda: cp(x),
            **tiles(dt, b, c, s * s),
        }, bytes=2 * b * c * s * s * dt.itemsize, ref=lambda x, o: lambda: x.permute(0, 2, 3, 1), tol=0,
            gk=Gk("transpose.gk", f"nhwc_{NAME[dt]}", lambda x, o: dict(x=x), "y"), target=(("peers", 1.0),))
