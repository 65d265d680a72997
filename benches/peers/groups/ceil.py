"""What the device gives at most: the floors of the other groups."""
from common import f64, new, rn, scale, sms
from harness import Problem


def rows(h):
    n = scale(1 << 28)
    yield Problem("copy", "1GiB", "f32", lambda: (rn(n), new(n)), {
        "memcpy": lambda x, o: lambda: o.copy_(x),
        "C++": [(f"{u}x16B", lambda x, o, u=u: h.c("copyk", x, o, n // 4, u, out=o)) for u in (1, 2, 4)],
    }, bytes=8 * n, ref=lambda x, o: lambda: x, tol=0)
    yield Problem("read", "1GiB", "f32", lambda: (rn(n), new(1)), {
        "CUB": lambda x, o: h.cub("cub_sum_f32", x, (o,), n),
        "C++": [(f"{k}/SM u{u}", lambda x, o, k=k, u=u: h.c("readk", x, p := new(k * sms()), n // 4, k, u, out=p))
                for k in (4, 8, 16, 32) for u in (4, 8)],
    }, bytes=4 * n, bceil="read", ref=lambda x, o: lambda: x.sum(dtype=f64), norm=n**.5, post=lambda p: p.double().sum())
    yield Problem("write", "1GiB", "f32", lambda: (new(n),), {
        "memset": lambda o: h.c("memsetk", o, 37, 4 * n, out=o),
        "C++": lambda o: h.c("fillk", o, 1.2345, n // 4, out=o),
    }, bytes=4 * n, bceil="write")
