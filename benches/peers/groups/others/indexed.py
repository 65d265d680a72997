"""Gathers, sums by key, histograms. What is accumulated into is zeroed in every call, on both sides."""
import torch
import torch.nn.functional as F

from common import DEV, compiled, f16, f32, gen, i32, i64, ri, scale
from groups.others import call, family

case = family("indexed.gk")
N = 1 << 24


def keys(m, n, dt=i64):
    return lambda: ri(0, scale(m), scale(n), dt=dt)


def rows(h):
    for dt, v, d, n in ((f32, 200000, 64, 1 << 19), (f16, 50257, 768, 1 << 16)):
        yield case("embedding", dt, dict(t=(v, d), k=keys(v, n)), lambda t, k: F.embedding(k, t), shape=(n, d), tol=0)
    m, n, d = 4096, 4096, 1024
    yield case("take along rows", f32, dict(x=(m, n), k=lambda: ri(0, scale(n), scale(m), scale(d), dt=i64)),
               lambda x, k: torch.gather(x, 1, k), shape=(m, d), tol=0)
    yield case("permute", f32, dict(x=(N,), k=lambda: torch.randperm(scale(N), device=DEV, generator=gen())),
               lambda x, k: x[k], tol=0)
    yield from segments()
    yield from ragged()
    yield from histograms()


def segments():
    m = scale(1 << 16)

    def zeros(*shape, like):
        return torch.zeros(m, *shape, device=DEV, dtype=like.dtype)

    def largest(k, x):
        return zeros(like=x).scatter_reduce_(0, k, x, "amax")

    def total(k, x):
        return zeros(*x.shape[1:], like=x).index_add_(0, k, x)
    arrays = dict(m=m, k=keys(1 << 16, N), x=(N,))
    yield case("segment sum", f32, arrays, total)
    yield case("segment max", f32, arrays, largest, tol=0)
    for n, d in ((1 << 18, 64), (100000, 100)):
        yield case("segment sum of rows", f32, dict(m=m, k=keys(1 << 16, n), x=(n, d)), total, shape=(n, d))


def ragged():
    """Segments that follow one another, on average 256 or 16 terms of them; rows of a sparse matrix; bags of rows."""
    def starts(segments):
        def between():
            ends = torch.tensor([0, scale(N)], device=DEV)
            return torch.cat((ends, ri(0, scale(N), scale(segments + 1) - 2, dt=i64))).sort().values
        return between

    def total(start, x):
        return torch.segment_reduce(x, "sum", offsets=start)
    for segments, shape in ((1 << 16, None), (1 << 20, (1 << 20, 16))):
        yield case("ragged sum", f32, dict(start=starts(segments), x=(N,)), total, shape=shape, peers={"eager": call(total)})
    rows, n = 1 << 20, 1 << 20

    def matrix(start, column, value, x):
        return torch.sparse_csr_tensor(start, column, value, (len(start) - 1, len(x)))

    def times(*arrays):
        return matrix(*arrays) @ arrays[-1]

    def made_before(*arrays):
        made = matrix(*arrays)
        return lambda: made @ arrays[-1]
    yield case("sparse matrix times vector", f32, dict(start=starts(rows), column=keys(n, N), value=(N,), x=(n,)), times,
               shape=(rows, n), peers={"eager": made_before}, nograph=("eager",))
    bags, length, v, d = 1 << 14, 32, 200000, 128

    def bag(t, k):
        return F.embedding_bag(k, t, mode="sum")
    arrays = dict(t=(v, d), k=lambda: ri(0, scale(v), scale(bags), scale(length), dt=i64))
    yield case("embedding bag", f32, arrays, bag, shape=(bags, length, d))


def histograms():
    for bins in (64, 4096):
        def count(k):
            return torch.bincount(k, minlength=bins)

        def add(k):
            return torch.zeros(bins, device=DEV, dtype=i32).index_add_(0, k, torch.ones_like(k))
        yield case(f"histogram {bins}", i32, dict(k=keys(bins, N, i32)), count, shape=(N,), nograph=("eager",), peers={
            "eager": call(count), "compile": call(compiled(add))})

    def weigh(k, w):
        return torch.bincount(k, w, minlength=1024)

    def add_weights(k, w):
        return torch.zeros(1024, device=DEV, dtype=w.dtype).index_add_(0, k, w)
    yield case("histogram by weight", f32, dict(k=keys(1024, N, i32), w=(N,)), weigh, nograph=("eager",), peers={
        "eager": call(weigh), "compile": call(compiled(add_weights))})
