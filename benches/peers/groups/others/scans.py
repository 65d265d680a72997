"""Scans along every axis, of several types and reducers."""
import torch
import torch.nn.functional as F

from common import f32, f64, i32, u8
from groups.others import family

case = family("scans.gk")


def rows(h):
    for dt, n in ((f64, 1 << 24), (f32, 10**7 + 1)):
        yield case("scan", dt, dict(x=(n,)), lambda x: torch.cumsum(x, 0), tol=1e-12 if dt == f64 else 1e-4)
    for dt, n in ((i32, 1 << 25), (u8, 1 << 25)):
        yield case("scan", dt, dict(x=(n,)), lambda x: torch.cumsum(x, 0, dtype=i32))
    yield case("scan before", f32, dict(x=(1 << 24,)), lambda x: torch.cumsum(F.pad(x[:-1], (1, 0)), 0), tol=1e-4)
    for m, n in ((4096, 4096), (10000, 1000)):
        yield case("scan rows", f32, dict(x=(m, n)), lambda x: torch.cumsum(x, 1))
    yield case("scan columns", f32, dict(x=(8192, 4096)), lambda x: torch.cumsum(x, 0))
    yield case("scan middle", f32, dict(x=(64, 1024, 512)), lambda x: torch.cumsum(x, 1))
    yield case("running max", f32, dict(x=(1 << 24,)), lambda x: torch.cummax(x, 0).values, tol=0)
    yield case("running max of rows", f32, dict(x=(4096, 4096)), lambda x: torch.cummax(x, 1).values, tol=0)
