"""Permutations of axes, and results that read elsewhere than they are written."""
import torch
import torch.nn.functional as F

from common import f16, f32, f64, u8
from groups.others import family

case = family("permutations.gk", tol=0)


def gray(x):
    x = x.int()
    return ((77 * x[..., 0] + 150 * x[..., 1] + 29 * x[..., 2]) >> 8).to(u8)


def shuffle(x):
    return F.pixel_shuffle(x.reshape(1, -1, *x.shape[3:]), 2)[0]


def rows(h):
    for work, dt, axes, shape in (
            ("heads", f16, (0, 2, 1, 3), (16, 2048, 16, 64)),
            ("reverse axes", f32, (3, 2, 1, 0), (32, 48, 96, 128)),
            ("hwc to chw", u8, (2, 0, 1), (4096, 4096, 3)),
            ("hwc to chw", f32, (2, 0, 1), (2048, 2048, 3)),
            ("chw to hwc", u8, (1, 2, 0), (3, 4096, 4096)),
            ("transpose", u8, (1, 0), (10000, 3000)),
            ("transpose", f64, (1, 0), (4096, 4096)),
            ("transpose each", f16, (0, 2, 1), (64, 500, 1000))):
        yield case(work, dt, dict(x=shape), lambda x: x.permute(axes).contiguous())
    yield case("flip", f32, dict(x=(1 << 24,)), lambda x: torch.flip(x, (0,)))
    yield case("flip rows", u8, dict(x=(4000, 6000)), lambda x: torch.flip(x, (1,)))
    yield case("roll", f32, dict(x=(1 << 24,)), lambda x: torch.roll(x, 1001))
    yield case("gray", u8, dict(x=(4096, 4096, 3)), gray)
    yield case("repeat", f32, dict(x=(1 << 24,)), lambda x: x[:, None].expand(-1, 2).reshape(-1))
    yield case("upsample", f32, dict(x=(32, 512, 512)), lambda x: F.interpolate(x[None], scale_factor=2, mode="nearest")[0])
    yield case("every second", f32, dict(x=(1 << 25,)), lambda x: x[:x.shape[0] // 2 * 2:2].clone())
    yield case("pixel shuffle", f32, dict(x=(64, 2, 2, 256, 256)), shuffle)
    yield case("concatenate", f32, dict(a=(10**7,), b=(1 << 23,)), lambda a, b: torch.cat((a, b)))
    yield case("concatenate rows", f16, dict(a=(16384, 1000), b=(16384, 513)), lambda a, b: torch.cat((a, b), 1))
    yield case("pad", f32, dict(x=(4094, 4094)), lambda x: F.pad(x, (1, 1, 1, 1)))
    yield case("upper triangle", f32, dict(x=(4096, 4096)), torch.triu)
