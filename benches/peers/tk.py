"""Triton peers: the usual kernels, as a good user of Triton would write them."""
import triton
import triton.language as tl


@triton.jit
def gelu_erf(v):
    return 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))


# OP 0: x+y   1: a*x+y   2: gelu(a*x+y)*z
@triton.jit
def ew(x, y, z, o, a, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, m).to(tl.float32)
    w = tl.load(y + i, m).to(tl.float32)
    if OP == 0:
        r = v + w
    elif OP == 1:
        r = a * v + w
    else:
        r = gelu_erf(a * v + w) * tl.load(z + i, m).to(tl.float32)
    tl.store(o + i, r.to(o.dtype.element_ty), m)


# two-stage sum (or dot product): one partial a program, then one program adds the partials
@triton.jit
def sum_part(x, y, part, n, DOT: tl.constexpr, ACC: tl.constexpr, B: tl.constexpr):
    acc = tl.zeros([B], ACC)
    step = tl.num_programs(0) * B
    for k in range(tl.program_id(0) * B, n, step):
        i = k + tl.arange(0, B)
        m = i < n
        v = tl.load(x + i, m, other=0.0).to(ACC)
        if DOT:
            v *= tl.load(y + i, m, other=0.0).to(ACC)
        acc += v
    tl.store(part + tl.program_id(0), tl.sum(acc, 0))


@triton.jit
def sum_fin(part, o, p, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o, tl.sum(tl.load(part + i, i < p, other=0.0), 0))


# rows [R, C]; OP 0: sum  1: softmax  2: layernorm  3: rmsnorm.  A tile of whole rows a program.
@triton.jit
def row_tile(x, w, b, o, R, C, OP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)[None, :]
    r = rows[:, None]
    m = (r < R) & (c < C)
    if OP == 1:
        v = tl.load(x + r * C + c, m, other=float("-inf"))
        e = tl.exp(v - tl.max(v, 1)[:, None])
        tl.store(o + r * C + c, e / tl.sum(e, 1)[:, None], m)
    else:
        v = tl.load(x + r * C + c, m, other=0.0)
        if OP == 0:
            tl.store(o + rows, tl.sum(v, 1), rows < R)
        else:
            wv = tl.load(w + c, c < C, other=0.0)
            if OP == 2:
                d = tl.where(m, v - (tl.sum(v, 1) / C)[:, None], 0.0)
                s = tl.rsqrt(tl.sum(d * d, 1) / C + 1e-5)
                y = d * s[:, None] * wv + tl.load(b + c, c < C, other=0.0)
            else:
                y = v * tl.rsqrt(tl.sum(v * v, 1) / C + 1e-5)[:, None] * wv
            tl.store(o + r * C + c, y, m)


# one row a program, walked in pieces of B (long rows)
@triton.jit
def row_loop(x, w, b, o, R, C, OP: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    x += r * C
    p = tl.zeros([B], tl.float32)
    q = tl.zeros([B], tl.float32)
    if OP == 1:
        p += -1e30
    for k in range(0, C, B):
        i = k + tl.arange(0, B)
        if OP == 1:
            v = tl.load(x + i, i < C, other=-1e30)
            n = tl.maximum(p, v)
            q = q * tl.exp(p - n) + tl.exp(v - n)
            p = n
        else:
            v = tl.load(x + i, i < C, other=0.0)
            p += v
            q += v * v
    if OP == 0:
        tl.store(o + r, tl.sum(p, 0))
    else:
        if OP == 1:
            mx = tl.max(p, 0)
            s = 1.0 / tl.sum(q * tl.exp(p - mx), 0)
        elif OP == 2:
            mx = tl.sum(p, 0) / C
            s = tl.rsqrt(tl.sum(q, 0) / C - mx * mx + 1e-5)
        else:
            s = tl.rsqrt(tl.sum(q, 0) / C + 1e-5)
        for k in range(0, C, B):
            i = k + tl.arange(0, B)
            m = i < C
            v = tl.load(x + i, m, other=0.0)
            if OP == 1:
                y = tl.exp(v - mx) * s
            elif OP == 2:
                y = (v - mx) * s * tl.load(w + i, m) + tl.load(b + i, m)
            else:
                y = v * s * tl.load(w + i, m)
            tl.store(o + r * C + i, y, m)


# the tutorial's pointer kernel, with masks: for rows that TMA cannot address and for plain f32
@triton.jit
def mm_ptr(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
           PREC: tl.constexpr):
    pm = tl.cdiv(M, BM)
    pn = tl.cdiv(N, BN)
    t = tl.program_id(0)
    z = tl.program_id(1).to(tl.int64)
    a += z * M * K
    b += z * K * N
    c += z * M * N
    m0 = t // (GM * pn) * GM
    gm = min(pm - m0, GM)
    m = (m0 + t % (GM * pn) % gm) * BM + tl.arange(0, BM)
    n = (t % (GM * pn)) // gm * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + (m % M)[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        va = tl.load(pa, k[None, :] < K - k0, other=0.0)
        vb = tl.load(pb, k[:, None] < K - k0, other=0.0)
        acc = tl.dot(va, vb, acc, input_precision=PREC)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


# stencils on tiles of BM x BN
@triton.jit
def jacobi5(x, o, H, W, BM: tl.constexpr, BN: tl.constexpr):
    r = (tl.program_id(1) * BM + tl.arange(0, BM))[:, None]
    c = (tl.program_id(0) * BN + tl.arange(0, BN))[None, :]
    m = (r > 0) & (r < H - 1) & (c > 0) & (c < W - 1)
    p = x + r * W + c
    v = tl.load(p - W, m) + tl.load(p + W, m) + tl.load(p - 1, m) + tl.load(p + 1, m)
    tl.store(o + r * W + c, 0.25 * v, m)


@triton.jit
def blur3(x, o, H, W, U8: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    r = (tl.program_id(1) * BM + tl.arange(0, BM))[:, None]
    c = (tl.program_id(0) * BN + tl.arange(0, BN))[None, :]
    m = (r < H) & (c < W)
    acc = tl.zeros([BM, BN], tl.int32 if U8 else tl.float32)
    for dr in tl.static_range(-1, 2):
        p = x + tl.minimum(tl.maximum(r + dr, 0), H - 1) * W
        for dc in tl.static_range(-1, 2):
            acc += tl.load(p + tl.minimum(tl.maximum(c + dc, 0), W - 1), m, other=0).to(acc.dtype)
    if U8:
        tl.store(o + r * W + c, ((acc + 4) // 9).to(tl.uint8), m)
    else:
        tl.store(o + r * W + c, acc * (1.0 / 9.0), m)


@triton.jit
def heat7(x, o, D, H, W, k, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.program_id(2)
    r = (tl.program_id(1) * BM + tl.arange(0, BM))[:, None]
    c = (tl.program_id(0) * BN + tl.arange(0, BN))[None, :]
    m = (d > 0) & (d < D - 1) & (r > 0) & (r < H - 1) & (c > 0) & (c < W - 1)
    i = (d * H + r) * W + c
    v = tl.load(x + i, m)
    s = tl.load(x + i - H * W, m) + tl.load(x + i + H * W, m) + tl.load(x + i - W, m) + tl.load(x + i + W, m)
    s += tl.load(x + i - 1, m) + tl.load(x + i + 1, m)
    tl.store(o + i, v + k * (s - 6.0 * v), m)
