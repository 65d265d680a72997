"""Reductions along the last axis, and what is computed of them."""
import torch
import torch.nn.functional as F

from common import bf16, f16, f32, f64, i32, i64, ri, scale
from groups.others import TOLERANCE, family, wide

case = family("rows.gk")
SOFTMAX = ((f16, 8192, 1024), (f16, 4096, 4096), (f16, 2048, 32000), (f16, 16384, 513), (f16, 32768, 768), (bf16, 8192, 1024),
           (f32, 16384, 513), (f32, 200000, 33), (f64, 8192, 1024))
LAYERNORM = ((f16, 16384, 768), (f16, 8192, 4096), (bf16, 16384, 768), (f32, 4096, 5000))


def layernorm(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)


def add_layernorm(x, r, w, b):
    s = x + r
    return s, layernorm(s, w, b)


def rows(h):
    for dt, m, n in SOFTMAX:
        yield case("softmax", dt, dict(x=(m, n)), lambda x: torch.softmax(x, 1))
    m, n = 2048, 32000
    yield case("log softmax", bf16, dict(x=(m, n)), lambda x: torch.log_softmax(x, 1))
    yield case("cross entropy", bf16, dict(x=(m, n), t=lambda: ri(0, scale(n), scale(m), dt=i64)),
               lambda x, t: F.cross_entropy(x, t, reduction="none"))
    yield case("logsumexp", f32, dict(x=(8192, 4096)), lambda x: torch.logsumexp(x, 1))
    yield from norms()
    yield from reductions()


def norms():
    for dt, m, n in LAYERNORM:
        yield case("layernorm", dt, dict(x=(m, n), w=(n,), b=(n,)), layernorm)
    yield case("add layernorm", f16, dict(x=(16384, 768), r=(16384, 768), w=(768,), b=(768,)), add_layernorm, result=("s", "y"))
    yield case("rmsnorm", bf16, dict(x=(8192, 5120), w=(5120,)), lambda x, w: F.rms_norm(x, w.shape, w, 1e-5))
    yield case("normalise", f32, dict(x=(32768, 1000)), lambda x: F.normalize(x, dim=1))


def reductions():
    yield case("variance", f32, dict(x=(8192, 4096)), lambda x: torch.var(x, 1, correction=0))
    yield case("mean", f16, dict(x=(65536, 768)), lambda x: torch.mean(x, 1))
    yield case("row max", f32, dict(x=(32768, 1000)), lambda x: torch.amax(x, 1), tol=0)
    for dt in (f32, f16):
        yield case("row argmax", dt, dict(x=(8192, 4096)), lambda x: torch.argmax(x, 1), tol=0)
    for dt, m, n in ((f16, 4096, 16384), (f32, 32, 1000003)):
        yield case("row sum", dt, dict(x=(m, n)), lambda x: torch.sum(x, 1, dtype=wide(x.dtype)), tol=TOLERANCE[f32])
    yield case("row sum", i32, dict(x=(65536, 500)), lambda x: torch.sum(x, 1))
    n = 30_000_000
    yield case("sum", f32, dict(x=(n,)), torch.sum, result="out", norm=scale(n)**.5)
