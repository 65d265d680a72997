"""Products of matrices and vectors."""
import torch

from common import bf16, compiled, f16, f32, f64
from groups.others import call, exact_products, family, usual, wide

case = family("products.gk")


def summed(function):
    """Beside the library's product the sum of products, which torch.compile makes a kernel of."""
    return {"compile sum": call(compiled(function))}


def each(a, x):
    return torch.bmm(a, x[:, :, None])[:, :, 0]


def rows(h):
    exact_products()
    product = summed(lambda a, x: torch.sum(a.to(wide(a.dtype)) * x.to(wide(x.dtype)), 1).to(a.dtype))
    for dt, m, n in ((f16, 4096, 16384), (bf16, 8192, 8192), (f32, 512, 65536), (f32, 65536, 512), (f32, 5000, 5003),
                     (f64, 4096, 4096)):
        yield case("matvec", dt, dict(a=(m, n), x=(n,)), torch.mv, peers={**usual(torch.mv), **product})
    product = summed(lambda x, a: torch.sum(x.to(wide(x.dtype))[:, None] * a.to(wide(a.dtype)), 0).to(a.dtype))
    for dt, m, n in ((f32, 4096, 8192), (f16, 8192, 8192)):
        yield case("vecmat", dt, dict(x=(m,), a=(m, n)), torch.matmul, shape=(m, n), peers={**usual(torch.matmul), **product})
    yield case("matvec each", f32, dict(a=(32, 1024, 1024), x=(32, 1024)), each, peers={
        **usual(each), **summed(lambda a, x: torch.sum(a * x[:, None], 2))})
    yield case("row dots", f32, dict(a=(32768, 1000), b=(32768, 1000)), lambda a, b: torch.sum(a * b, 1))
