"""Inclusive scans."""
import torch

from common import NAME, compiled, cupy, f32, f64, i32, new, ri, rn, scale, size
from gk import Gk
from harness import Problem


def rows(h):
    n = scale(1 << 28)

    def cupy_scan(x, o):
        cp = cupy(h)
        xc, oc = cp.asarray(x), cp.asarray(o)
        return lambda: (cp.cumsum(xc, dtype=xc.dtype, out=oc), o)[1]

    for dt in (f32, i32):
        comp = compiled(lambda x: torch.cumsum(x, 0, dtype=dt))
        yield Problem("scan", size(n), NAME[dt], lambda: (
            rn(n) if dt == f32 else ri(-100, 100, n, dt=i32), new(n, dt=dt)), {
            "CUB": lambda x, o: h.cub(f"cub_scan_{NAME[dt]}", x, (o,), n),
            "torch": lambda x, o: lambda: torch.cumsum(x, 0, dtype=dt, out=o),
            "compile": lambda x, o: lambda: comp(x),
            "cupy": cupy_scan,
        }, bytes=2 * n * dt.itemsize, ref=lambda x, o: lambda: torch.cumsum(x, 0, dtype=f64),
            tol=1e-3 if dt == f32 else 0, gk=Gk("scan.gk", f"scan_{NAME[dt]}", lambda x, o: dict(x=x), "o"),
            target=(("CUB", 0.88 if dt == f32 else 0.97),))
