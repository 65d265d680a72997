#!/usr/bin/env python3
"""Writes ../tests/reference/f64.txt: true values of the double precision functions, by mpmath.

    python3 reference.py [POINTS] [FILE]

A line `= name` starts a function. Each further line holds the bits of the arguments and of the correctly rounded
result in hexadecimal, then (true value - rounded result) in units of the result's last place.
"""
import math, os, random, struct, sys
import mpmath as mp
mp.mp.prec = 300
random.seed(20)
points = int(sys.argv[1]) if len(sys.argv) > 1 else 220
path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), '../tests/reference/f64.txt')


def bits(x):
    return struct.unpack('<Q', struct.pack('<d', x))[0]


def of_bits(i):
    return struct.unpack('<d', struct.pack('<Q', i))[0]


def rounded(v):
    """The nearest double (ties do not occur), and the rest in ulps."""
    if mp.isinf(v):
        return float(v), 0.0
    if v == 0:
        return 0.0, 0.0
    e = max(int(mp.floor(mp.log(abs(v), 2))), -1022)
    u = mp.ldexp(v, 52 - e)
    n = mp.nint(u)
    if e > 1023 or e == 1023 and abs(n) >= 2**53:
        return math.copysign(math.inf, n), 0.0
    return math.copysign(math.ldexp(int(n), e - 52), v), float(u - n)


def spread(lo, hi, sign=True):
    """Uniform in the exponent."""
    x = math.exp(random.uniform(math.log(lo), math.log(hi)))
    return -x if sign and random.random() < 0.5 else x


def any_bits(sign=True):
    while True:
        x = of_bits(random.getrandbits(64) if sign else random.getrandbits(63))
        if math.isfinite(x):
            return x


U = random.uniform
near1 = lambda: 1 + math.copysign(spread(1e-12, 0.5, False), random.random() - 0.5)
tiny = [5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-20, 1e-8, 3e-9]
both = lambda v: v + [-x for x in v]
trig = [lambda: U(-10, 10), lambda: spread(1e-9, 1e9), any_bits, lambda: random.randrange(1, 10**6) * math.pi / 2, lambda: math.ldexp(random.getrandbits(53), random.randrange(-20, 900))]
hard = [6381956970095103.0 * 2.0**797, 5.3e8, 536870912.0, 536870911.9, 1e22, 1.7976931348623157e308, 2.0**1023, 0.7853981633974483, 1.5707963267948966, 3.141592653589793, 261799.38779914942]

ONE = {
    'exp': (mp.exp, [lambda: U(-745.2, 709.8), lambda: U(-2, 2), lambda: spread(1e-10, 700)], both(tiny) + [709.782712893384, 709.7827128933841, -745.1332191019411, -745.1332191019412, -708.4, -740.0, 0.34657359027997264, 0.34657359027997275]),
    'exp2': (lambda x: mp.power(2, x), [lambda: U(-1075, 1024), lambda: U(-2, 2)], both(tiny) + [-1074.0, -1022.5, -1075.0, -1074.9999999999998, 1023.9999999999999, 0.5, -0.5, 10.0]),
    'expm1': (mp.expm1, [lambda: U(-38, 709.8), lambda: U(-1, 1), lambda: spread(1e-17, 5)], both(tiny) + [-37.5, -40.0, 0.34657359027997264, -0.34657359027997275, 709.782712893384]),
    'log': (mp.log, [lambda: any_bits(False), near1, lambda: U(0.3, 4)], tiny + [0.7071067811865475, 0.7071067811865476, 1.414213562373095, 1.4142135623730951, 0.9999999999999999, 1.0000000000000002, 1.7976931348623157e308]),
    'log2': (lambda x: mp.log(x) / mp.log(2), [lambda: any_bits(False), near1, lambda: U(0.3, 4)], tiny + [0.7071067811865475, 0.7071067811865476, 1.414213562373095, 0.9999999999999999, 1.0000000000000002]),
    'log10': (lambda x: mp.log(x) / mp.log(10), [lambda: any_bits(False), near1, lambda: U(0.3, 4)], tiny + [0.7071067811865476, 1.414213562373095, 0.9999999999999999, 1.0000000000000002, 1000.0, 0.001]),
    'log1p': (mp.log1p, [lambda: any_bits(False), lambda: spread(1e-17, 0.999), lambda: U(-0.99, 3), lambda: U(-0.32, 0.45)], both(tiny) + [-0.9999999999999999, -0.2928932188134524, -0.29289321881345254, 0.4142135623730951, 0.41421356237309503, -0.5, 1.7976931348623157e308]),
    'sin': (mp.sin, trig, both(tiny) + hard), 'cos': (mp.cos, trig, both(tiny) + hard), 'tan': (mp.tan, trig, both(tiny) + hard),
    'asin': (mp.asin, [lambda: U(-1, 1), lambda: U(0.5, 0.6), lambda: spread(1e-17, 1), lambda: 1 - spread(1e-16, 0.5, False)], both(tiny) + [0.5625, 0.5625000000000001, 0.9999999999999999, 1.0, -1.0]),
    'acos': (mp.acos, [lambda: U(-1, 1), lambda: U(0.5, 0.6), lambda: spread(1e-17, 1), lambda: 1 - spread(1e-16, 0.5, False), lambda: spread(1e-16, 0.5, False) - 1], both(tiny) + [0.5625, 0.5625000000000001, -0.5625, 0.9999999999999999, -1.0, 1.0]),
    'atan': (mp.atan, [any_bits, lambda: U(-3, 3), lambda: U(0.9, 1.1), lambda: spread(1e-17, 1e17)], both(tiny) + [1.0, 0.9999999999999999, 1.0000000000000002]),
    'sinh': (mp.sinh, [lambda: U(-711, 711), lambda: U(-3, 3), lambda: spread(1e-17, 700)], both(tiny) + [1.0, 0.9999999999999999, 710.4758600739439, 710.475860073944, 709.9]),
    'cosh': (mp.cosh, [lambda: U(-711, 711), lambda: U(-3, 3), lambda: spread(1e-17, 700)], both(tiny) + [1.0, 0.9999999999999999, 710.4758600739439, 710.475860073944, 709.9]),
    'tanh': (mp.tanh, [lambda: U(-20, 20), lambda: U(-2, 2), lambda: U(0.5, 0.7), lambda: spread(1e-17, 30)], both(tiny) + [0.55, 0.5499999999999999, 19.0, 19.5, 22.0, 1e300]),
    'erf': (mp.erf, [lambda: U(-6, 6), lambda: U(-2, 2), lambda: U(0.9, 1.2), lambda: spread(1e-17, 7)], both(tiny) + [1.0, 0.9999999999999999, 5.9, 6.0, 30.0]),
    'erfc': (lambda x: mp.erfc(max(min(x, mp.mpf(99)), mp.mpf(-99))), [lambda: U(-6, 27.3), lambda: U(-1, 2), lambda: U(0.4, 3), lambda: spread(1e-17, 27)], both(tiny) + [0.47, 0.46999999999999997, -0.47, 26.5, 26.6, 27.0, 27.2, 27.226, 27.3, 28.0, 1e300, -6.0, -1e300]),
    'cbrt': (lambda x: mp.cbrt(x) if x >= 0 else -mp.cbrt(-x), [any_bits, lambda: U(-30, 30), lambda: spread(5e-324 * 2, 1e-307)], both(tiny) + [27.0, -8.0, 0.125, 1.7976931348623157e308]),
    'rsqrt': (lambda x: 1 / mp.sqrt(x), [lambda: any_bits(False), lambda: U(0.2, 5)], tiny + [1.7976931348623157e308]),
}


def power():
    x = random.choice([lambda: any_bits(False), near1, lambda: U(0, 10)])()
    if x <= 0 or x == 1:
        return 1.5, 2.5
    y = U(-750, 715) / math.log(x)
    return (x, y) if random.random() < 0.9 or not math.isfinite(round(y)) else (-x, float(round(y)))


def exact_pow(x, y):
    return mp.power(x, y) if x > 0 else mp.power(-x, y) * (-1 if int(y) % 2 else 1)


def point():
    x = random.choice([any_bits, lambda: U(-10, 10)])()
    return x, x * spread(0.01, 100) if abs(x) < 1e300 else U(-10, 10) * 1e300


TWO = {
    'pow': (exact_pow, [power], [(10.0, 308.0), (10.0, -323.0), (2.0, -1074.0), (2.0, -1075.5), (0.5, 1074.0), (1.0000000000000002, 1e18), (0.9999999999999999, 6e18), (5e-324, 0.5), (1e-310, -0.99), (3.0, 40.0), (-3.0, 33.0), (-0.5, 1073.0), (1e300, 1.03)]),
    'atan2': (lambda y, x: mp.atan2(y, x), [point, lambda: (U(-1, 1), U(-1, 1))], [(1.0, 1.0), (5e-324, 1.0), (5e-324, 5e-324), (1e308, -1e-308), (1e-308, -1e308), (-1e-300, 1e20), (1.0, -1e-300)]),
    'hypot': (lambda x, y: mp.sqrt(mp.mpf(x) ** 2 + mp.mpf(y) ** 2), [point, lambda: (U(-1, 1), U(-1, 1))], [(3.0, 4.0), (5e-324, 5e-324), (1e-310, 2e-310), (1.7e308, 1e307), (1e308, 1e308), (1e-200, 1e-201), (1e-310, 1.0), (3e-151, 1e-151), (3.3e150, 1e150)]),
}

with open(path, 'w') as out:
    for name, (f, ranges, extra) in {**ONE, **TWO}.items():
        two = name in TWO
        print('=', name, file=out)
        args = extra + [random.choice(ranges)() for _ in range(points)]
        for a in args:
            a = a if two else (a,)
            # enough bits that the argument of a huge angle is reduced exactly
            with mp.workprec(1500 if name in ('sin', 'cos', 'tan') and abs(a[0]) > 1e15 else 300):
                v = f(*[mp.mpf(x) for x in a])
                if not mp.isinf(v) and v != 0:
                    v = +v
                hi, lo = rounded(v)
                if v == 0:
                    hi = math.copysign(0.0, a[0]) if name not in ('exp', 'exp2', 'erfc', 'acos') else 0.0
            print(*['%x' % bits(x) for x in a], '%x' % bits(hi), '%.3f' % lo, file=out)
