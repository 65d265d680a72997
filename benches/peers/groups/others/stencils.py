"""Stencils, pools and small convolutions.

PyTorch has two forms for most: a pooling or a convolution, and a sum of shifted slices, of which torch.compile makes one kernel.
"""
import itertools

import torch
import torch.nn.functional as F

from common import compiled, f16, f32, u8
from groups.others import call, exact_products, family, usual

case = family("stencils.gk")


def padded(x, reach, mode):
    """An array with a rim on all sides of all axes; PyTorch wants two axes more for it."""
    return F.pad(x[None, None], (reach, reach) * x.ndim, mode=mode)[0, 0]


def box(x, reach, mode):
    """The mean of the neighbours, by slices."""
    p, width = padded(x, reach, mode), 2 * reach + 1
    total = 0
    for at in itertools.product(range(width), repeat=x.ndim):
        total = total + p[tuple(slice(i, i + n) for i, n in zip(at, x.shape))]
    return total * (1.0 / width**x.ndim)


def pooled(x, reach, mode):
    """The same by a pooling."""
    pool = F.avg_pool2d if x.ndim == 2 else F.avg_pool3d
    return pool(padded(x, reach, mode)[None, None], 2 * reach + 1, stride=1)[0, 0]


def boxes():
    for work, dt, shape, reach, mode in (
            ("blur5x5", f32, (4096, 4096), 2, "replicate"),
            ("box3x3", f16, (4096, 4096), 1, "replicate"),
            ("box3x3 mirror", f32, (3000, 5003), 1, "reflect"),
            ("box3x3 wrap", f32, (4096, 4096), 1, "circular"),
            ("box3x3x3", f32, (256, 256, 256), 1, "replicate")):
        def slices(x):
            return box(x, reach, mode)
        yield case(work, dt, dict(x=shape), slices, peers={
            **usual(lambda x: pooled(x, reach, mode)), "compile slices": call(compiled(slices))})


def box_of_bytes(x):
    return ((box(x.float(), 1, "replicate") * 9 + 4.5) / 9).floor().to(u8)


def line(x, k):
    p = F.pad(x, (3, 3))
    return sum(k[d] * p[d:d + x.shape[0]] for d in range(7))


def sobel(x):
    h, w = x.shape
    p = padded(x, 1, "replicate")

    def at(i, j):
        return p[1 + i:1 + i + h, 1 + j:1 + j + w]
    gx = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1)
    gy = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1)
    return torch.sqrt(gx * gx + gy * gy)


def depthwise(x, k):
    return F.conv2d(x, k[:, None], padding=1, groups=k.shape[0])


def depthwise_slices(x, k):
    h, w = x.shape[2:]
    p = F.pad(x, (1, 1, 1, 1))
    return sum(k[:, r, s, None, None] * p[:, :, r:r + h, s:s + w] for r in range(3) for s in range(3))


def rows(h):
    exact_products()
    yield from boxes()
    yield case("box3x3", u8, dict(x=(3000, 5003)), box_of_bytes)
    yield case("line7", f32, dict(x=(1 << 24,), k=(7,)), line, peers={
        "eager": call(lambda x, k: F.conv1d(x[None, None], k[None, None], padding=3)[0, 0]), "compile": call(compiled(line))})
    yield case("sobel", f32, dict(x=(4096, 4096)), sobel)
    images = dict(x=(8, 64, 224, 224))
    yield case("max pool2", f32, images, lambda x: F.max_pool2d(x, 2), tol=0)
    yield case("max pool3", f16, images, lambda x: F.max_pool2d(x, 3, stride=2, padding=1), tol=0)
    yield case("average pool2", f32, images, lambda x: F.avg_pool2d(x, 2))
    yield case("depthwise3x3", f32, dict(x=(16, 64, 112, 112), k=(64, 3, 3)), depthwise, peers={
        **usual(depthwise), "compile slices": call(compiled(depthwise_slices))})
