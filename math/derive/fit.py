#!/usr/bin/env python3
"""Minimax polynomials of the functions in ../src/*.gk, by a Remez exchange on a dense grid.

    python3 fit.py [f32|f64] [NAME ...]

prints, for each fit, the coefficients (rounded to the type, lowest degree first) and the weighted error
that remains after the rounding. A coefficient is rounded, then the higher ones are fitted again.
"""
import struct, sys
import mpmath as mp
mp.mp.dps = 50
m = mp.mpf


def round_bits(v, bits):
    """v rounded to `bits` significant bits."""
    if v == 0:
        return m(0)
    e = int(mp.floor(mp.log(abs(v), 2))) + 1
    return mp.ldexp(mp.nint(mp.ldexp(v, bits - e)), e - bits)


def remez(g, w, xs, exps):
    """Coefficients c of sum c[k] x^exps[k] closest to g on the grid xs, weighted by w; and the error."""
    n = len(exps)
    pts = len(xs)
    pw = [[x ** e for e in exps] for x in xs]
    idx = [int(round((pts - 1) * (1 - mp.cos(mp.pi * i / n)) / 2)) for i in range(n + 1)]
    for _ in range(30):
        a = mp.matrix(n + 1, n + 1)
        b = mp.matrix(n + 1, 1)
        for r, i in enumerate(idx):
            for k in range(n):
                a[r, k] = pw[i][k] * w[i]
            a[r, n] = (-1) ** r
            b[r] = g[i] * w[i]
        s = mp.lu_solve(a, b)
        c = [s[k] for k in range(n)]
        err = [w[i] * (sum(ck * p for ck, p in zip(c, pw[i])) - g[i]) for i in range(pts)]
        worst = max(abs(e) for e in err)
        # extrema: the largest of each run of one sign
        runs = []
        for i in range(pts):
            if err[i] == 0:
                continue
            if runs and (err[runs[-1]] > 0) == (err[i] > 0):
                if abs(err[i]) > abs(err[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            if len(runs) > n + 2:
                j = min(range(len(runs)), key=lambda q: abs(err[runs[q]]))
                if 0 < j < len(runs) - 1:
                    # drop with its smaller neighbour, so that signs still alternate
                    o = j - 1 if abs(err[runs[j - 1]]) < abs(err[runs[j + 1]]) else j + 1
                    for q in sorted((j, o), reverse=True):
                        runs.pop(q)
                else:
                    runs.pop(j)
            else:
                runs.pop(0 if abs(err[runs[0]]) < abs(err[runs[-1]]) else -1)
        if len(runs) < n + 1:
            break
        lev = abs(s[n])
        idx = runs
        if worst <= lev * m('1.02') or worst < m(10) ** -40:
            break
    return c, worst


def fit(name, G, W, lo, hi, target, bits, deg0):
    lo, hi = m(lo), m(hi)
    npts = 24 * (deg0 + 6)
    xs = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (i + m(1) / 2) / npts) for i in range(npts)]
    g = [G(x) for x in xs]
    w = [W(x) for x in xs]
    d = deg0
    while True:
        c, err = remez(g, w, xs, list(range(d + 1)))
        if err < target:
            break
        d += 1
    # round from the lowest up, fit the rest again; how far this helps depends on how the fit is conditioned
    best = None
    for nfix in (d + 1, 8, 4):
        fixed, last = [], c
        for k in range(min(nfix, d + 1)):
            gg = [gi - sum(f * x ** j for j, f in enumerate(fixed)) for gi, x in zip(g, xs)]
            if k:
                last, _ = remez(gg, w, xs, list(range(k, d + 1)))
            fixed.append(round_bits(last[0], bits))
        out = fixed + [round_bits(v, bits) for v in last[1:]]
        fin = max(abs(w[i] * (sum(f * x ** j for j, f in enumerate(out)) - g[i])) for i, x in enumerate(xs))
        if best is None or fin < best[0]:
            best = (fin, out)
        if fin < 2 * err:
            break
    fin, out = best
    print(f"{name}: degree {d}, minimax 2^{float(mp.log(err, 2)):.2f}, rounded 2^{float(mp.log(fin, 2)):.2f}")
    for j, f in enumerate(out):
        if bits == 24:
            import numpy as np
            v = np.format_float_scientific(np.float32(float(f)), unique=True, trim='-')
        else:
            v = repr(float(f))
        print(f"    c{j} = {v}")
    sys.stdout.flush()


def hp(f):
    """f evaluated with twice the digits: numerators that cancel keep their accuracy."""
    def g(x):
        with mp.workdps(110):
            return f(m(x))
    return g


L2 = mp.log(2)
at = lambda s: mp.sqrt(s)


def erfc_k(q, K):
    return K * (1 + q) / (1 - q)


def table(bits):
    f32 = bits == 24
    big = m('10.2') if f32 else m('27.5')
    K = 2 if f32 else 4
    A = lambda q: erfc_k(q, K)
    half = m(1) if f32 else m(1)/2  # of what is left of an exponent
    return {
        # name: (G, W, lo, hi, bits that the error is to lie below an ulp, first degree tried)
        'exp': (hp(lambda r: (mp.expm1(r) - r) / r**2), hp(lambda r: r**2 / mp.exp(r)), -half*L2, half*L2, 3, 6 if f32 else 8),
        'exphalf': (hp(lambda r: (mp.expm1(r) - r) / r**2), hp(lambda r: r**2 / mp.exp(r)), -L2/2, L2/2, 3, 3),
        'exp2': (hp(lambda r: mp.expm1(r * L2) / r), hp(lambda r: r / mp.exp(r*L2)), -half, half, 3, 7 if f32 else 9),
        'expm1': (hp(lambda r: (mp.expm1(r) - r) / r**2), hp(lambda r: r**2 / mp.expm1(r)), -L2/2, L2/2, 3, 4 if f32 else 9),
        'log': (hp(lambda f: (mp.log1p(f) - f) / f**2), hp(lambda f: f**2 / mp.log1p(f)), m('-0.3334') if f32 else m('-0.2930'), m('0.3334') if f32 else m('0.4143'), 3, 7 if f32 else 17),
        'log1p': (hp(lambda f: (mp.log1p(f) - f) / f**2), hp(lambda f: f**2 / mp.log1p(f)), m('-0.2501'), m('0.5001'), 3, 7 if f32 else 17),
        'logs': (hp(lambda z: (mp.log((1+at(z))/(1-at(z))) - 2*at(z)) / at(z)**3), hp(lambda z: at(z)**3 / (mp.log((1+at(z))/(1-at(z))))), m('1e-9'), m('0.02945'), 3, 2 if f32 else 6),
        'pow': (hp(lambda z: (mp.log((1+at(z))/(1-at(z))) - 2*at(z) - at(z)**3*2/3) / at(z)**5), hp(lambda z: at(z)**5 / (mp.log((1+at(z))/(1-at(z))))), m('1e-9'), m('0.02945'), 13 if f32 else 16, 2 if f32 else 6),
        'sin': (hp(lambda z: (mp.sin(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.sin(at(z))), m('1e-9'), m('0.6300') if f32 else m('0.61690'), 3, 2 if f32 else 5),
        'cos': (hp(lambda z: (mp.cos(at(z)) - 1 + z/2) / z**2), hp(lambda z: z**2 / mp.cos(at(z))), m('1e-9'), m('0.6300') if f32 else m('0.61690'), 3, 2 if f32 else 5),
        'tan': (hp(lambda z: (mp.tan(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.tan(at(z))), m('1e-9'), m('0.6300') if f32 else m('0.61690'), 3, 4 if f32 else 11),
        'asin': (hp(lambda z: (mp.asin(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.asin(at(z))), m('1e-9'), m('0.3166') if f32 else m('0.3166'), 3, 3 if f32 else 9),
        'atan': (hp(lambda z: (mp.atan(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.atan(at(z))), m('1e-9'), m('1.00001'), 3, 6 if f32 else 17),
        'sinh': (hp(lambda z: (mp.sinh(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.sinh(at(z))), m('1e-9'), m('1.00001'), 3, 2 if f32 else 5),
        'tanh': (hp(lambda z: (mp.tanh(at(z)) - at(z)) / at(z)**3), hp(lambda z: at(z)**3 / mp.tanh(at(z))), m('1e-9'), m('0.3026'), 3, 3 if f32 else 9),
        'erf': (hp(lambda z: (mp.erf(at(z)) - at(z)) / at(z)), hp(lambda z: at(z) / mp.erf(at(z))), m('1e-9'), m('1.0') if f32 else m('1.0001'), 3, 4 if f32 else 9),
        'erfbig': (hp(lambda t: mp.erfc(t)**(m(1)/4)), hp(lambda t: 4*mp.erfc(t)**(m(3)/4) / mp.erf(t)), m('1.0'), m('4.0'), 2.5, 8),
        'erfc': (hp(lambda q: (1 + 2*A(q)) * mp.erfc(A(q)) * mp.exp(A(q)**2) - 1), hp(lambda q: 1/((1 + 2*A(q)) * mp.erfc(A(q)) * mp.exp(A(q)**2))), -1, (big - K) / (big + K), 3, 9 if f32 else 20),
    }


if __name__ == '__main__':
    bits = 24 if sys.argv[1] == 'f32' else 53
    t = table(bits)
    for name in sys.argv[2:] or t:
        if name in ('erfbig', 'exphalf') and bits == 53:
            continue
        G, W, lo, hi, extra, d0 = t[name]
        fit(f"{sys.argv[1]} {name}", G, W, lo, hi, m(2) ** -(bits + extra), bits, d0)
