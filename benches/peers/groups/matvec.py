"""A matrix times a vector."""
import torch

from common import compiled, new, rn, scale
from gk import Gk
from harness import Problem


def rows(h):
    m = n = scale(16384)
    comp = compiled(lambda a, x: torch.mv(a, x))
    summed = compiled(lambda a, x: torch.sum(a * x, 1))
    yield Problem("matvec", f"{m}x{n}", "f32", lambda: (rn(m, n), rn(n), new(m)), {
        "torch": lambda a, x, o: lambda: torch.mv(a, x, out=o),
        "compile": lambda a, x, o: lambda: comp(a, x),
        "compile sum": lambda a, x, o: lambda: summed(a, x),
    }, bytes=4 * (m * n + m + n), bceil="read", ref=lambda a, x, o: lambda: torch.mv(a.double(), x.double()),
        gk=Gk("products.gk", "matvec", lambda a, x, o: dict(a=a, x=x), "y"), target=(("peers", 1.0), ("read", 0.93)))
