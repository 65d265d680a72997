"""Reductions along other axes than the last."""
import torch

from common import compiled, new, rn, scale
from gk import Gk
from harness import Problem
from groups.rows import SHAPES


def rows(h):
    colsum = compiled(lambda x: torch.sum(x, 0))
    for R, C in SHAPES:
        R, C = scale(R), scale(C)
        name = f"{R}x{C}" if C < 1 << 20 else f"{R}x2^24"
        yield Problem("colsum", name, "f32", lambda: (rn(R, C),), {
            "eager": lambda x: lambda: torch.sum(x, 0),
            "compile": lambda x: lambda: colsum(x),
        }, bytes=4 * (R * C + C), bceil="copy" if R == 1 else "read", ref=lambda x: lambda: x.double().sum(0),
            norm=(R * C)**.5, gk=Gk("columns.gk", "colsum", lambda x: dict(x=x), "y"), target=(("peers", 1.05),))
    middle = compiled(lambda x: torch.softmax(x, 1))
    for B, M, N in ((64, 1024, 1024), (128, 512, 512)):
        B, M, N = scale(B), scale(M), scale(N)
        yield Problem("softmax axis 1", f"{B}x{M}x{N}", "f32", lambda: (rn(B, M, N),), {
            "eager": lambda x: lambda: torch.softmax(x, 1),
            "compile": lambda x: lambda: middle(x),
        }, bytes=8 * B * M * N, ref=lambda x: lambda: torch.softmax(x.double(), 1),
            gk=Gk("columns.gk", "softmax_middle", lambda x: dict(x=x), "y"), target=(("peers", 1.05),))
