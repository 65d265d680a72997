"""What the groups share: tensors, sizes, and the libraries that peers come from."""
import ctypes
import os
import warnings

import torch

warnings.filterwarnings("ignore")
REHEARSAL = os.environ.get("PEERS_REHEARSAL") == "1"  # small sizes on the CPU, to try programs and references out
DEV = "cpu" if REHEARSAL else "cuda"
f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
u8, i32, i64 = torch.uint8, torch.int32, torch.int64
NAME = {f64: "f64", f32: "f32", f16: "f16", bf16: "bf16", u8: "u8", i32: "i32", i64: "i64"}


def scale(n):
    """A size; in a rehearsal a small one."""
    return n if not REHEARSAL or n <= 64 else 64 + n % 61


def gen(made=[]):  # our own: a failed capture leaves torch's default generator unusable
    made[:] = made or [torch.Generator(DEV).manual_seed(1)]
    return made[0]


def rn(*shape, dt=f32):
    return torch.randn(*shape, device=DEV, dtype=f32 if REHEARSAL and dt == f16 else dt, generator=gen()).to(dt)


def uniform(*shape):
    return torch.rand(*shape, device=DEV, generator=gen())


def ri(lo, hi, *shape, dt):
    return torch.randint(lo, hi, shape, device=DEV, dtype=dt, generator=gen())


def new(*shape, dt=f32):
    return torch.empty(*shape, device=DEV, dtype=dt)


def size(n):
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else "10^7" if n == 10**7 else f"{n}"


def pow2(n):
    return 1 << (n - 1).bit_length()


def cdiv(a, b):
    return -(-a // b)


def sms():
    return 1 if REHEARSAL else torch.cuda.get_device_properties(0).multi_processor_count


def compiled(f, **kw):
    import torch._dynamo
    torch._dynamo.config.recompile_limit = 1000
    return torch.compile(f, dynamic=False, fullgraph=True, **kw)


def cupy(h):
    import cupy
    cupy.cuda.ExternalStream(h.stream).use()
    return cupy


class Cublas:
    """The cuBLAS that torch loaded, called directly."""
    TYPES = {f32: 0, f64: 1, f16: 2}  # cudaDataType: CUDA_R_32F, CUDA_R_64F, CUDA_R_16F

    def __init__(self):
        self.lib = ctypes.CDLL("libcublas.so.13")

    def dot(self, x, y, o):
        """The result stays on the device; f16 is multiplied and added in f32."""
        n, t, pointers = x.numel(), self.TYPES[x.dtype], [ctypes.c_void_p(v.data_ptr()) for v in (x, y, o)]
        accumulator = self.TYPES[f64 if x.dtype == f64 else f32]

        def call():
            hd = ctypes.c_void_p(torch.cuda.current_blas_handle())
            self.lib.cublasSetPointerMode_v2(hd, 1)
            r = self.lib.cublasDotEx(hd, n, pointers[0], t, 1, pointers[1], t, 1, pointers[2], t, accumulator)
            self.lib.cublasSetPointerMode_v2(hd, 0)
            if r:
                raise RuntimeError(f"cublasDotEx: {r}")
            return o
        return call

    def geam_t(self, x, o):  # row-major x[R,C] -> o[C,R]
        (R, C), px, po = x.shape, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(o.data_ptr())
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def call():
            hd = ctypes.c_void_p(torch.cuda.current_blas_handle())
            r = self.lib.cublasSgeam(hd, 1, 0, R, C, ctypes.byref(one), px, C, ctypes.byref(zero), po, R, po, R)
            if r:
                raise RuntimeError(f"cublasSgeam: {r}")
            return o
        return call


def cublas(h):
    return None if h.prep or REHEARSAL else Cublas()
