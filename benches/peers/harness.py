"""Timing and bookkeeping of one group of rows, in one process (group.py runs it; peers.py starts the processes)."""
import concurrent.futures
import ctypes
import json
import os
import re
import signal
import sys
import time
import traceback
from dataclasses import dataclass

import torch

import gk
from common import DEV, REHEARSAL

L2_FLUSH = 180e6  # rotate inputs until the sets hold three times the L2
# peers that compile something at their first call: the prepare phase calls them once, untimed
PREPARED = ("compile", "triton", "cupy")
# peers that need no GPU: what a rehearsal tries
ANYWHERE = ("eager", "torch", "index_select", "index_add_")
GRAPHS = []


class Dead(Exception):
    """The CUDA context is lost (an illegal access, say): this process can measure nothing more."""


@dataclass
class Problem:
    work: str
    size: str
    dtype: str
    inputs: object  # () -> tuple of tensors: one buffer set; rotated among several sets unless hot
    # name -> maker(*set) giving a call that returns its output, or a tuple of them; or [(config, maker), ...], the best counts
    peers: dict
    bytes: float = 0  # the fewest that must move; otherwise each input and result once
    flops: float = 0
    bceil: str = "copy"  # the ceilings that the floor is taken from
    fceil: str = ""
    ref: object = None  # maker of the reference call
    tol: float = 1e-4
    norm: float = 0  # what the error is divided by, instead of the reference's norm
    post: object = None  # applied to an output before it is compared
    hot: bool = False
    nograph: tuple = ()  # peers that cannot be captured (they synchronize)
    gk: object = None  # gpukc's kernel
    target: tuple = ()  # ("peers" or a peer or a ceiling, how many times as fast, or which share of it), ...


def sync():
    if not REHEARSAL:
        torch.cuda.synchronize()


def empty():
    if not REHEARSAL:
        torch.cuda.empty_cache()


def warm_up():
    """Brings the clocks up."""
    a = torch.randn(4096, 4096, device=DEV, dtype=torch.bfloat16)
    t = time.time()
    while time.time() - t < 0.3:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()


def outputs(out):
    return out if isinstance(out, tuple) else (out,)


def event():
    return torch.cuda.Event(enable_timing=True)


def once_ms(f):
    a, b = event(), event()
    a.record()
    f()
    b.record()
    b.synchronize()
    return max(a.elapsed_time(b), 1e-3)


def capture(fns, per):
    """A graph of `per` calls; outputs are kept so that the calls do not reuse one another's memory."""
    g = torch.cuda.CUDAGraph()
    keep = []
    GRAPHS[:] = [g]  # a graph whose capture failed must outlive it: torch's allocator still refers to it
    g.capture_begin(capture_error_mode="relaxed")
    try:
        for i in range(per):
            keep.append(fns[i % len(fns)]())
    finally:
        g.capture_end()
    GRAPHS.clear()
    return g, keep


def measure(fns, graph=True, rep_ms=40.0):
    """Median milliseconds a call. fns: the same call on different buffer sets."""
    n = len(fns)
    t = once_ms(fns[0])
    if t < 50:
        for f in fns:
            f()
        torch.cuda.synchronize()
        t = min(once_ms(fns[i % n]) for i in range(3))
    how, per, calls, keep, note = "event", 1, fns, None, ""
    if t < 1.0:
        per = -(-max(1, min(64, int(0.4 / t) + 1)) // n) * n
        if graph:
            try:
                g, keep = capture(fns, per)
                how, calls = "graph", [g.replay]
            except Exception as e:  # not capturable: fall through to a loop
                note = f"no graph: {e!r}"[:200]
                torch.cuda.synchronize()
        if how == "event":
            def loop():
                for i in range(per):
                    fns[i % n]()
            how, calls = "loop", [loop]
        calls[0]()
        t = once_ms(calls[0])
    m = len(calls)
    for i in range(max(1, min(50, int(10 / t)))):
        calls[i % m]()
    reps = 3 if t > 100 else max(7, min(200, int(rep_ms / t)))
    ev = [event() for _ in range(reps + 1)]
    ev[0].record()
    for i in range(reps):
        calls[i % m]()
        ev[i + 1].record()
    torch.cuda.synchronize()
    ts = sorted(ev[i].elapsed_time(ev[i + 1]) / per for i in range(reps))
    out = dict(ms=ts[reps // 2], min=ts[0], p90=ts[int(reps * 0.9)], reps=reps, per=per, method=how)
    if note:
        out["note"] = note
    del keep, calls
    return out


class Harness:
    def __init__(self, group):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end when peers.py does
        self.group, self.dir = group, os.environ["PEERS_DIR"]
        self.rows = re.compile(os.environ.get("PEERS_ROWS", ""))
        self.only = os.environ.get("PEERS_ONLY", "")
        self.prep, self.index = False, 0
        self.start = int(os.environ.get("PEERS_START", "0"))
        self.deadline = 0.0
        self.out = open(f"{self.dir}/{group}.jsonl", "a")
        self._lib = None
        if not REHEARSAL:
            torch.cuda.set_stream(torch.cuda.Stream())  # graphs cannot be captured on the default stream
            self.stream = torch.cuda.current_stream().cuda_stream

    # -------------------------------------------------------------- records
    def emit(self, work, size, dtype, peer, **kw):
        r = dict(group=self.group, work=work, size=size, dtype=dtype, peer=peer, **kw)
        self.out.write(json.dumps(r) + "\n")
        self.out.flush()

    def _failed(self, work, size, dtype, peer, e):
        self.emit(work, size, dtype, peer, error=f"{type(e).__name__}: {e}"[:500])
        traceback.print_exc()
        sys.stderr.flush()
        try:
            sync()
        except Exception as x:
            raise Dead(str(x)) from e

    def _at(self, i, *key):
        """Say which case is being tried: after a crash, peers.py records it and starts the next process behind it."""
        with open(f"{self.dir}/{self.group}.at", "w") as f:
            json.dump([i, *key], f)

    def left(self):
        return self.deadline - time.time()

    # -------------------------------------------------------------- a problem
    def wanted(self, p):
        return self.rows.search(f"{self.group} {p.work} {p.size} {p.dtype}")

    def cases(self, p):
        """The peers to be measured, then gpukc."""
        peers = dict(p.peers)
        if REHEARSAL:
            peers = {k: v for k, v in peers.items() if k in ANYWHERE}
        if self.only == "gpukc" and p.gk:
            peers = {}
        if p.gk and self.only != "peers":
            peers["gpukc"] = p.gk
        return peers

    def run(self, p):
        if not self.wanted(p):
            return
        if self.prep:
            return self._prepare(p)
        key = (p.work, p.size, p.dtype)
        cases = self.cases(p)
        first = self.index
        self.index += len(cases)
        todo = [(first + j, k, v) for j, (k, v) in enumerate(cases.items()) if first + j >= self.start]
        if not todo:
            return
        sets = ref = None
        ws = 0
        if self.left() > 0:
            self._at(todo[0][0], *key, "inputs")
            try:
                sets = [p.inputs()]
                ws = sum({t.data_ptr(): t.nbytes for t in sets[0]}.values())
                rotate = not (p.hot or REHEARSAL or self.only == "gpukc")
                while rotate and len(sets) < 32 and len(sets) * ws < L2_FLUSH:
                    sets.append(p.inputs())
            except Exception as e:
                self._failed(*key, "inputs", e)
                return
            if p.ref:
                try:
                    ref = tuple(r.double() for r in outputs(p.ref(*sets[0])()))
                except Exception as e:  # the peers are still timed, unchecked (err is null)
                    self._failed(*key, "reference", e)
        for i, peer, maker in todo:
            if self.left() < 0:
                self.emit(*key, peer, skipped="time budget")
                continue
            self._at(i, *key, peer)
            common = dict(flops=p.flops, bceil=p.bceil, fceil=p.fceil, target=p.target)
            try:
                if peer == "gpukc":
                    sync()
                    record = gk.run(maker, sets[0], p.hot, lambda out: self._check(p, out, ref, ws), max(30, self.left() + 20))
                    self.emit(*key, peer, **common, cache="hot" if p.hot else "rotated", **record)
                else:
                    record = self._peer(p, peer, maker, sets, ref, ws)
                    self.emit(*key, peer, **common, cache="rotated" if len(sets) * ws >= 120e6 else "hot", **record)
            except Exception as e:
                self._failed(*key, peer, e)
        sets = ref = None
        empty()

    def _peer(self, p, peer, maker, sets, ref, ws):
        graph, config = peer not in p.nograph, ""
        if isinstance(maker, list) and not REHEARSAL:
            config, maker = self._best(maker, sets, graph)
        fns = [maker(*s) for s in sets]
        verdict = self._check(p, fns[0](), ref, ws)
        m = dict(ms=1e-3, method="none") if REHEARSAL else measure(fns, graph)
        return dict(nbuf=len(sets), config=config, **verdict, **m)

    def _best(self, makers, sets, graph):
        best, errors = None, []
        for config, maker in makers:
            try:
                t = measure([maker(*s) for s in sets], graph, rep_ms=4.0)["ms"]
                if best is None or t < best[0]:
                    best = (t, config, maker)
            except Exception as e:
                errors.append(f"{config}: {e}")
                torch.cuda.synchronize()  # raises if the context is lost
        if best is None:
            raise RuntimeError("; ".join(errors)[:400])
        return best[1:]

    def _check(self, p, out, ref, given):
        """The relative error of what came out, whether it is too large, and the bytes that had to move, `given` of them inputs."""
        outs = outputs(out)
        moved = p.bytes or given + sum(o.nbytes for o in outs)
        if ref is None:
            return dict(bytes=moved, err=None, wrong=False)
        errors = [self._error(p, o, r) for o, r in zip(outs, ref, strict=True)]
        err = max(errors, key=lambda e: (e != e, e))
        return dict(bytes=moved, err=err if err == err else "nan", wrong=not err <= p.tol)

    def _error(self, p, out, ref):
        if not isinstance(out, torch.Tensor):  # CuPy
            out = torch.as_tensor(out.get(), device=DEV)
        if p.post:
            out = p.post(out)
        out = out.double().reshape(ref.shape)
        return ((out - ref).norm() / (p.norm or ref.norm().item() or 1.0)).item()

    def _prepare(self, p):
        """Compile what this problem's peers compile, at its real shapes. Failures are recorded when measured."""
        cases = self.cases(p)
        names = [k for k in cases if k.startswith(PREPARED)]
        if not names:
            return
        s, f = p.inputs(), None
        for k in names:
            v = cases[k]
            for _, maker in v if isinstance(v, list) else [("", v)]:
                try:
                    f = maker(*s)  # a Triton call hands its compilation to the pool here
                    if not k.startswith("triton"):
                        f()
                except Exception:
                    traceback.print_exc()
        torch.cuda.synchronize()
        del s, f
        torch.cuda.empty_cache()

    # -------------------------------------------------------------- calls
    def triton(self, kernel, grid, *args, out=None, **kw):
        if self.prep:
            kernel.warmup(*args, grid=grid, **kw)
        launch = kernel[grid]

        def call():
            launch(*args, **kw)
            return out
        return call

    def c(self, name, *args, out=None):
        """A call of an entry point of libpeers.so on our stream."""
        f = getattr(self.lib(), name)
        conv = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_float(a)
                if isinstance(a, float) else a if isinstance(a, ctypes.Array) else ctypes.c_longlong(a) for a in args]
        conv.append(ctypes.c_void_p(self.stream))

        def call():
            r = f(*conv)
            if r:
                raise RuntimeError(f"{name}: CUDA error {r}")
            return out
        return call

    def cub(self, name, x, outs, n):
        f = getattr(self.lib(), name)
        size = ctypes.c_size_t(0)
        ptrs = [ctypes.c_void_p(t.data_ptr()) for t in (x, *outs)]
        tail = (ctypes.c_longlong(n), ctypes.c_void_p(self.stream))
        r = f(None, ctypes.byref(size), *ptrs, *tail)
        if r:
            raise RuntimeError(f"{name}: CUDA error {r}")
        temp = torch.empty(max(1, size.value), dtype=torch.uint8, device=DEV)

        def call():
            r = f(ctypes.c_void_p(temp.data_ptr()), ctypes.byref(size), *ptrs, *tail)
            if r:
                raise RuntimeError(f"{name}: CUDA error {r}")
            return outs[-1]
        return call

    def lib(self):
        if self._lib is None:
            build = os.environ["PEERS_BUILD"]  # run.sh builds beside us; it leaves `done` or `failed`
            while not os.path.exists(f"{build}/done"):
                if os.path.exists(f"{build}/failed"):
                    raise RuntimeError("the CUDA C++ build failed (see peers.log)")
                time.sleep(0.05)
            self._lib = ctypes.CDLL(f"{build}/libpeers.so")
        return self._lib

    # -------------------------------------------------------------- one group, start to end
    def main(self, body):
        def go():
            self.index = 0
            try:
                for p in body(self) or ():
                    self.run(p)
            except Dead:
                raise
            except Exception as e:
                if not self.prep:
                    self.emit("group", "", "", "", error=f"{type(e).__name__}: {e}"[:500])
                traceback.print_exc()
        try:
            torch.zeros(1, device=DEV)
            if os.environ.get("PEERS_PREP", "1") == "1" and not REHEARSAL and self.only != "gpukc":
                import triton
                self.prep = True
                with triton.AsyncCompileMode(concurrent.futures.ThreadPoolExecutor(6), ignore_errors=True):
                    go()
                self.prep = False
                try:
                    torch.cuda.synchronize()
                except Exception as e:
                    raise Dead(str(e)) from e
                torch.cuda.empty_cache()
            open(f"{self.dir}/{self.group}.ready", "w").close()
            while not os.path.exists(f"{self.dir}/{self.group}.go"):
                time.sleep(0.02)
            self.deadline = float(open(f"{self.dir}/{self.group}.go").read())
            if not REHEARSAL:
                warm_up()
            go()
            self.out.flush()
            os._exit(0)  # no waiting for compile workers or the context
        except Dead as e:
            print(f"context lost: {e}", file=sys.stderr)
            os._exit(77)
