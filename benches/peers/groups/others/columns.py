"""Reductions along other axes than the last, and along several."""
import torch

from common import bf16, f16, f32, f64, u8
from groups.others import TOLERANCE, family, wide

case = family("columns.gk")


def statistics(x):
    var, mu = torch.var_mean(x, (0, 2, 3), correction=0)
    return mu, var


def standardise(x):
    var, mu = torch.var_mean(x, 0, correction=0)
    return (x - mu) * torch.rsqrt(var + 1e-5)


def rows(h):
    for dt, m, n in ((f16, 8192, 8192), (f32, 4000, 5003), (f64, 65536, 128)):
        yield case("column sum", dt, dict(x=(m, n)), lambda x: torch.sum(x, 0, dtype=wide(x.dtype)), tol=TOLERANCE[wide(dt)])
    yield case("column sum", u8, dict(x=(8192, 8192)), lambda x: torch.sum(x, 0))
    yield case("column max", f32, dict(x=(10000, 3000)), lambda x: torch.amax(x, 0), tol=0)
    yield case("column min", u8, dict(x=(8192, 8192)), lambda x: torch.amin(x, 0))
    yield case("column argmax", f32, dict(x=(4096, 4096)), lambda x: torch.argmax(x, 0), tol=0)
    yield case("column mean", bf16, dict(x=(8192, 4096)), lambda x: torch.mean(x, 0))
    yield case("column variance", f32, dict(x=(16384, 1000)), lambda x: torch.var(x, 0, correction=0))
    yield case("standardise", f32, dict(x=(16384, 1000)), standardise)
    yield case("batch norm statistics", f32, dict(x=(64, 64, 56, 56)), statistics, result=("mu", "var"))
    for dt, *shape in ((f32, 64, 1000, 512), (f16, 256, 197, 768)):
        yield case("sum of the middle", dt, dict(x=shape), lambda x: torch.sum(x, 1, dtype=wide(x.dtype)), tol=TOLERANCE[wide(dt)])
    yield case("sum of axes 0 and 2", f32, dict(x=(32, 100, 32, 256)), lambda x: torch.sum(x, (0, 2)))
    yield case("sum of axes 1 and 3", f32, dict(x=(32, 100, 32, 256)), lambda x: torch.sum(x, (1, 3)))
    yield case("global average", f32, dict(x=(256, 512, 7, 7)), lambda x: torch.mean(x, (2, 3)))
