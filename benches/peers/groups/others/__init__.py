"""The survey: programs, shapes and types beside the table's, without targets; a module a family.

A row compares a kernel with one function of PyTorch, eager and compiled.
"""
import torch

from common import NAME, bf16, compiled, f16, f32, f64, i32, ri, rn, scale, size, u8
from gk import Gk
from harness import Problem

TOLERANCE = {f64: 1e-12, f32: 1e-5, f16: 2e-3, bf16: 1e-2}  # of floats; integers and what only moves are exact
INTEGERS = {u8: (0, 256), i32: (-1000, 1000)}


def values(dt, shape):
    return ri(*INTEGERS[dt], *shape, dt=dt) if dt in INTEGERS else rn(*shape, dt=dt)


def exactly(t):
    return t.double() if t.is_floating_point() else t


def call(function):
    """A peer that computes a function of a set's arrays."""
    return lambda *arrays: lambda: function(*arrays)


def usual(function):
    return {"eager": call(function), "compile": call(compiled(function))}


def family(file, tol=None):
    """`case(...)` makes a row of a kernel of this file, called as the row's work and its type.

    `arrays` has the kernel's parameters: shapes of random values of type `dt`, functions that make tensors, and numbers.
    `function` takes the tensors among them, in their order; in doubles it is the reference. Other peers may replace the usual,
    and another `shape` that of the first array in the row's name.
    """
    def case(work, dt, arrays, function, shape=None, result="y", peers=None, **more):
        numbers = {name: array for name, array in arrays.items() if isinstance(array, int)}
        tensors = {name: array for name, array in arrays.items() if name not in numbers}

        def inputs():
            return tuple(a() if callable(a) else values(dt, [scale(n) for n in a]) for a in tensors.values())
        dims = [scale(n) for n in shape or next(a for a in tensors.values() if not callable(a))]
        more.setdefault("tol", TOLERANCE.get(dt, 0) if tol is None else tol)
        return Problem(
            work, size(dims[0]) if len(dims) == 1 else "x".join(map(str, dims)), NAME[dt], inputs, peers or usual(function),
            ref=lambda *arrays: lambda: function(*map(exactly, arrays)),
            gk=Gk(f"others/{file}", f"{work.replace(' ', '_')}_{NAME[dt]}",
                  lambda *arrays: dict(zip(tensors, arrays), **numbers), result), **more)
    return case


def wide(dt):
    """The type of a sum."""
    return f64 if dt == f64 else f32


def exact_products():
    """Products of f32 are f32 here, not tf32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
