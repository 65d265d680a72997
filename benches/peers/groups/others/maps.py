"""Element-wise functions, broadcasts, mixed types."""
import torch
import torch.nn.functional as F

from common import bf16, f16, f32, f64, i32, ri, rn, scale, u8, uniform
from groups.others import family

case = family("maps.gk")
N = 1 << 24


def positive():
    return uniform(scale(N)) * 10 + 0.01


def rows(h):
    for work, function, n in (("sin", torch.sin, N), ("cos", torch.cos, N), ("tanh", torch.tanh, N), ("exp", torch.exp, N),
                              ("silu", F.silu, 10**7 + 1)):
        yield case(work, f32, dict(x=(n,)), function)
    for work, function in (("log", torch.log), ("sqrt", torch.sqrt)):
        yield case(work, f32, dict(x=positive), function, shape=(N,))
    yield case("pow", f32, dict(x=positive, e=(N,)), torch.pow)
    yield case("exp", f64, dict(x=(1 << 23,)), torch.exp)
    yield case("swiglu", f16, dict(x=(N,), g=(N,)), lambda x, g: x * F.silu(g))
    yield case("gelu", bf16, dict(x=(N,)), F.gelu)
    yield case("clamp or scale", f32, dict(x=(N,), k=lambda: rn(scale(N)) < 0),
               lambda x, k: torch.where(k, torch.clamp(x, -1.0, 1.0), 0.1 * x))
    yield case("three results", f32, dict(a=(N,), b=(N,)), lambda a, b: (a + b, a - b, a * b), result=("s", "d", "p"))
    yield from broadcasts()
    yield from types()


def broadcasts():
    yield case("normalise image", u8, dict(x=(16, 3, 512, 512), mu=lambda: rn(3), s=lambda: rn(3)),
               lambda x, mu, s: (x * (1.0 / 255.0) - mu[:, None, None]) * s[:, None, None], tol=1e-5)
    yield case("scale channels", f16, dict(x=(32, 112, 112, 64), s=(64,), t=(64,)), lambda x, s, t: x * s + t)
    yield case("outer sum", f32, dict(a=(8192,), b=(4096,)), lambda a, b: a[:, None] + b, shape=(8192, 4096))
    for dt, m, n in ((f32, 10000, 3001), (bf16, 16384, 3072)):
        yield case("add row", dt, dict(x=(m, n), b=(n,)), lambda x, b: x + b)
    yield case("scale rows", f32, dict(x=(10000, 3001), s=(10000,)), lambda x, s: x * s[:, None])


def types():
    yield case("bits", i32, dict(a=(N,), b=(N,)), lambda a, b: a * b + ((a ^ b) >> 3))
    yield case("divide by 7", i32, dict(a=(N,)), lambda a: torch.div(a, 7, rounding_mode="trunc"))
    yield case("remainder", i32, dict(a=(N,), b=lambda: ri(1, 1000, scale(N), dt=i32)), torch.fmod)
    yield case("difference", u8, dict(a=(1 << 25,), b=(1 << 25,)), lambda a, b: torch.maximum(a, b) - torch.minimum(a, b))
    yield case("add", f64, dict(a=(1 << 23,), b=(1 << 23,)), torch.add)
    yield case("add f16 to", f32, dict(a=lambda: rn(scale(N), dt=f16), b=(N,)), torch.add)
    yield case("round to f16", f32, dict(x=(N,)), lambda x: x.to(f16), tol=0)
