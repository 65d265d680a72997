"""Subscripts that are data: histograms, gathers, scatter-adds."""
import torch

from common import DEV, NAME, compiled, cupy, f64, i32, i64, new, ri, rn, scale, size, u8, uniform
from gk import Gk
from harness import Problem


def rows(h):
    yield from histograms(h)
    n, m = scale(1 << 26), scale(1 << 20)
    take = compiled(lambda t, k: t[k])
    cadd = compiled(lambda t, k, v: t.index_add_(0, k, v))

    def cupy_take(t, k, o):
        cp = cupy(h)
        tc, kc, oc = cp.asarray(t), cp.asarray(k), cp.asarray(o)
        return lambda: (cp.take(tc, kc, out=oc), o)[1]

    def cupy_add(t, k, v):
        cp = cupy(h)
        import cupyx
        tc, kc, vc = cp.asarray(t), cp.asarray(k), cp.asarray(v)
        return lambda: (cupyx.scatter_add(tc, kc, vc), t)[1]

    def fresh(make):  # an adding peer is checked on a zeroed table; the zeroing is not timed (gpukc's is)
        def maker(t, k, v):
            t.zero_()
            return make(t, k, v)
        return maker

    for dt in (i32, i64):
        wide = int(dt == i64)

        def index():
            return ri(0, m, n, dt=dt)
        tag = f"{size(n)} of {size(m)} by {NAME[dt]}"
        yield Problem("gather", tag, "f32", lambda: (rn(m), index(), new(n)), {
            "index_select": lambda t, k, o: lambda: torch.index_select(t, 0, k, out=o),
            "compile": lambda t, k, o: lambda: take(t, k),
            "cupy": cupy_take,
            "C++": lambda t, k, o: h.c("gather", t, k, o, n, wide, out=o),
        }, bytes=n * (4 + dt.itemsize) + 4 * m, ref=lambda t, k, o: lambda: t[k], tol=0,
            gk=Gk("indexed.gk", f"gather_{NAME[dt]}", lambda t, k, o: dict(t=t, k=k), "o"), target=(("peers", 1.0),))
        yield Problem("scatter-add", f"{size(n)} into {size(m)} by {NAME[dt]}", "f32", lambda: (new(m), index(), rn(n)), {
            "index_add_": fresh(lambda t, k, v: lambda: t.index_add_(0, k, v)),
            "compile": fresh(lambda t, k, v: lambda: cadd(t, k, v)),
            "cupy": fresh(cupy_add),
            "C++": fresh(lambda t, k, v: h.c("scatter_add", t, k, v, n, wide, out=t)),
        }, bytes=n * (4 + dt.itemsize) + 8 * m, bceil="read",
            ref=lambda t, k, v: lambda: torch.zeros(m, device=DEV, dtype=f64).index_add_(0, k, v.double()),
            gk=Gk("indexed.gk", f"scatter_add_{NAME[dt]}", lambda t, k, v: dict(m=m, k=k, v=v), "t"),
            target=(("peers", 1.0),))


def histograms(h):
    n = scale(1 << 28)

    def cupy_count(x):
        cp = cupy(h)
        xc = cp.asarray(x)
        return lambda: cp.bincount(xc, minlength=256)

    yield Problem("hist256", size(n), "u8", lambda: (ri(0, 256, n, dt=u8), new(256, dt=i32)), {
        "CUB": lambda x, o: h.cub("cub_hist_u8", x, (o,), n),
        "torch": lambda x, o: lambda: torch.bincount(x, minlength=256),
        "cupy": lambda x, o: cupy_count(x),
    }, bytes=n, bceil="read", ref=lambda x, o: lambda: torch.bincount(x, minlength=256), tol=0,
        nograph=("torch", "cupy"), gk=Gk("indexed.gk", "hist256", lambda x, o: dict(x=x), "h"), target=(("peers", 1.0),))
    yield Problem("hist1024", size(n), "f32", lambda: (uniform(n), new(1024, dt=i32)), {
        "CUB": lambda x, o: h.cub("cub_hist_f32", x, (o,), n),
        "torch": lambda x, o: lambda: torch.histc(x, 1024, 0, 1),
    }, bytes=4 * n, bceil="read", ref=lambda x, o: lambda: torch.bincount((x * 1024).int(), minlength=1024), tol=1e-3,
        nograph=("torch",), gk=Gk("indexed.gk", "hist1024", lambda x, o: dict(x=x), "h"), target=(("peers", 1.0),))
