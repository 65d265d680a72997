"""Starts the groups, each in its own process, prints what they find and writes $OUT/peers.json, .md, .txt and .log.

First every group compiles what its peers need, several at a time (untimed). Then the groups measure, one at a time, with the GPU to
themselves; each has a limit of its own. A group that loses its CUDA context is started again behind the row that did it. When the
table is done, the survey (`others`) does the same with the time that is left."""
import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import report

# group: seconds it may measure for (rows left over are skipped), in the order they run
BUDGET = dict(ceil=20, elem=180, reduce=200, rows=120, columns=50, transpose=60, stencil=50, scan=60, indexed=80, matvec=30,
              matmul=40, **{f"{report.SURVEY}.{family}": 90 for family in (
                  "rows", "columns", "maps", "permutations", "stencils", "scans", "indexed", "products")})
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DIR, OUT = os.environ["PEERS_DIR"], os.environ["OUT"]
T0 = float(os.environ.get("PEERS_T0", time.time()))
REHEARSAL = os.environ.get("PEERS_REHEARSAL") == "1"


def say(*a):
    print(*a, flush=True)
    with open(f"{OUT}/peers.txt", "a") as f:
        print(*a, file=f)


def clock():
    return time.time() - T0


def output(*command, timeout=60):
    """What a command says, or nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def arguments():
    parser = argparse.ArgumentParser(description="Measures gpukc and its peers; without groups, all of them, and then "
                                     "docs/performance.md is written.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{' '.join(BUDGET)}; {report.SURVEY}: all of the survey")
    parser.add_argument("--gpukc", default=os.path.join(ROOT, "target/release/gpukc"), help="the command (target/release/gpukc)")
    parser.add_argument("--rows", default="", metavar="REGEX", help="rows whose 'group work size dtype' matches, such as 'sum 2.28'")
    parser.add_argument("--only", choices=("gpukc", "peers"), help="measure one side; with gpukc, --kept gives the other")
    parser.add_argument("--kept", metavar="FILE", help="the peers.json of an earlier run, for its ceilings and, with --only gpukc, peers")
    parser.add_argument("--runs", type=int, default=3, help="of gpukc for a row, of which the median counts (3)")
    parser.add_argument("--seconds", type=float, default=590, help="for everything (590)")
    parser.add_argument("--jobs", type=int, default=11, help="groups that compile at once (11); 0: none before it measures")
    parser.add_argument("--docs", action="store_true", help="write docs/performance.md though groups or rows were chosen")
    options = parser.parse_args()
    if bad := [n for n in options.groups if n not in BUDGET and n != report.SURVEY]:
        parser.error(f"no group {', '.join(bad)}; there are: {' '.join(BUDGET)}")
    options.gpukc = os.path.abspath(options.gpukc)
    if options.only != "peers" and not os.access(options.gpukc, os.X_OK):
        parser.error(f"{options.gpukc}: no such command; `cargo build --release -p gpukc-cli` makes it, or --gpukc names it")
    return options


class Child:
    def __init__(self, group, options):
        self.group, self.seen, self.options = group, 0, options
        for end in ("jsonl", "at", "ready", "go"):
            if os.path.exists(p := f"{DIR}/{group}.{end}"):
                os.remove(p)
        self.log = open(f"{DIR}/{group}.log", "w")
        self.start(1 if options.jobs else 0)

    def start(self, prep, first=0):
        o = self.options
        # The ceilings are measured whatever rows are chosen.
        env = dict(os.environ, PEERS_PREP=str(prep), PEERS_START=str(first), PYTHONUNBUFFERED="1", PEERS_GPUKC=o.gpukc,
                   PEERS_ONLY=o.only or "", PEERS_ROWS="" if self.group == "ceil" else o.rows, PEERS_ARRAYS=o.arrays,
                   PEERS_RUNS=str(max(1, o.runs)), TORCHINDUCTOR_COMPILE_THREADS="1")
        self.born, self.prep = time.time(), prep
        self.p = subprocess.Popen([sys.executable, f"{HERE}/group.py", self.group], env=env, stdin=subprocess.DEVNULL,
                                  stdout=self.log, stderr=self.log, start_new_session=True)

    def ready(self):
        return os.path.exists(f"{DIR}/{self.group}.ready")

    def alive(self):
        return self.p.poll() is None

    def kill(self):
        """End this child and the compile workers it started (its own session)."""
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()

    def records(self):
        try:
            with open(f"{DIR}/{self.group}.jsonl") as f:
                f.seek(self.seen)
                text = f.read()
        except FileNotFoundError:
            return []
        whole = text[:text.rfind("\n") + 1]
        self.seen += len(whole.encode())
        return [json.loads(x) for x in whole.splitlines()]


class Run:
    def __init__(self, options):
        self.options, self.records, self.children, self.state = options, [], {}, {}
        self.kept = json.load(open(options.kept)) if options.kept else None
        self.rates = dict(self.kept["ceilings"]) if self.kept else {}
        names = [n for n in BUDGET if not options.groups or {n, n.partition(".")[0]} & set(options.groups)]
        # Whatever is measured is measured against this run's ceilings.
        if "ceil" not in names and not self.rates:
            names.insert(0, "ceil")
        if options.only == "gpukc" and self.rates:
            names = [n for n in names if n != "ceil"]
        self.names = names
        versions = output(sys.executable, "-c", "import torch; print('PyTorch', torch.__version__)")
        versions = [versions, *(output(sys.executable, "-c", f"import {m}; print('{t}', {m}.__version__)")
                                for m, t in (("triton", "Triton"), ("cupy", "CuPy")))]
        gpukc = re.sub(r" \(/[^)]*\)", "", output(options.gpukc, "--version")).splitlines()  # nobody asks where things lie
        gpu = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
        # As anybody may repeat it: without the places of files and the time that there was.
        shown = re.sub(r"--(gpukc|kept|seconds|jobs)[ =]\S+ ?|--docs ?", "", " ".join(map(shlex.quote, sys.argv[1:]))).strip()
        self.meta = dict(groups=names, began=time.strftime("%Y-%m-%d %H:%M:%S"), state=self.state,
                         gpu=gpu[0].replace(", ", ", driver ") if gpu else "no GPU",
                         versions=", ".join([*filter(None, versions), *gpukc]),
                         command=f"benches/peers/run.sh {shown}".strip(),
                         kept=self.kept["meta"]["began"] if self.kept and options.only == "gpukc" else None)

    def all_records(self):
        """With the peers of an earlier run, for the rows measured now."""
        if not (self.kept and self.options.only == "gpukc"):
            return self.records
        now = {report.key(r) for r in self.records}
        return self.records + [r for r in self.kept["records"] if r["peer"] != "gpukc" and report.key(r) in now]

    def save(self):
        self.meta.update(seconds=round(clock()))
        data = dict(meta=self.meta, ceilings=self.rates, records=[report.figures(r, self.rates) for r in self.all_records()])
        with open(f"{OUT}/peers.json.tmp", "w") as f:
            json.dump(data, f, indent=0)
        os.replace(f"{OUT}/peers.json.tmp", f"{OUT}/peers.json")
        return json.loads(json.dumps(data))

    def take(self, records):
        for r in records:
            self.records.append(r)
            if r["group"] == "ceil":
                self.rates.update(report.ceilings(self.records))
            say(report.line(report.figures(r, self.rates)))

    def left(self):
        return self.options.seconds - clock() - 8

    def prepare(self, names):
        """Every group imports and compiles, some at a time."""
        queue, waiting = list(names), []
        limit = time.time() + min(150, self.left() * 0.3)
        while self.options.jobs and (queue or waiting) and time.time() < limit:
            while queue and len(waiting) < self.options.jobs:
                g = queue.pop(0)
                self.children[g] = Child(g, self.options)
                waiting.append(g)
            for g in list(waiting):
                c = self.children[g]
                if c.ready() or not c.alive():
                    waiting.remove(g)
                    self.state[g] = dict(prepare_s=round(time.time() - c.born, 1))
                    say(f"[{clock():5.0f}s] {g}: {'prepared' if c.ready() else 'DIED while preparing'} "
                        f"in {self.state[g]['prepare_s']}s")
            time.sleep(0.05)
        for g in waiting:
            say(f"[{clock():5.0f}s] {g}: not prepared in time; it will compile while it measures")
            self.children[g].kill()
            self.children[g].start(0)

    def measure(self, g):
        """One group, alone on the GPU."""
        st = self.state.setdefault(g, {})
        room = self.left()
        if room < 5:
            say(f"[{clock():5.0f}s] {g}: SKIPPED, no time left")
            st["skipped"] = "no time left"
            return
        c = self.children.get(g) or self.children.setdefault(g, Child(g, self.options))
        began, end = time.time(), time.time() + min(BUDGET[g] * (20 if REHEARSAL else 1), room)
        with open(f"{DIR}/{g}.go.tmp", "w") as f:
            f.write(str(end))
        os.replace(f"{DIR}/{g}.go.tmp", f"{DIR}/{g}.go")
        tries, count = 0, len(self.records)
        while True:
            alive = c.alive()
            self.take(c.records())
            if not alive:
                rc = c.p.returncode
                if rc == 0:
                    break
                at = json.load(open(f"{DIR}/{g}.at")) if os.path.exists(f"{DIR}/{g}.at") else [-1]
                say(f"[{clock():5.0f}s] {g}: process ended with {rc} at case {at}")
                if rc != 77:  # 77: it recorded the failure itself
                    self.take([dict(zip(("work", "size", "dtype", "peer"), [*at[1:], "group", "", "", ""]), group=g,
                                    error=f"the process ended with {rc}, see peers.log")])
                tries += 1
                if tries > (3 if at[0] >= 0 else 1) or time.time() > end - 10:
                    break
                c.start(0, at[0] + 1)
            elif time.time() > end + 25 or clock() > self.options.seconds - 3:
                say(f"[{clock():5.0f}s] {g}: STOPPED, past its limit")
                st["stopped"] = True
                break
            time.sleep(0.1)
        c.kill()
        self.take(c.records())
        st.update(measure_s=round(time.time() - began, 1), records=len(self.records) - count)
        say(f"[{clock():5.0f}s] {g}: {st['records']} records in {st['measure_s']}s")
        self.save()

    def survey_cut_short(self):
        """By time; it does not replace one that is whole."""
        return any("skipped" in r for r in self.records if report.surveyed(r["group"])) or any(
            "skipped" in state or "stopped" in state for g, state in self.state.items() if report.surveyed(g))

    def finish(self):
        data = self.save()
        with open(f"{OUT}/peers.log", "w") as f:
            for g in ["build", *self.names]:
                if os.path.exists(p := f"{DIR}/{g}.log"):
                    text = open(p, errors="replace").read()
                    f.write(f"===== {g}\n{text if len(text) < 400000 else text[:200000] + ' ... ' + text[-200000:]}\n")
        bad = [r for r in self.records if "error" in r or r.get("wrong")]
        if bad:
            print("\n==== errors and wrong results")
        for r in bad[:20]:
            print(report.line(r)[:300])
        print(f"==== each cell: time (u = us, m = ms), percent of the measured ceiling; ! = wrong result; {clock():.0f}s in all, "
              f"{len(self.records)} records, {len(bad)} bad, {sum('skipped' in r for r in self.records)} skipped")
        shown = report.table(data["records"])
        with open(f"{OUT}/peers.txt", "a") as f:
            f.write("\n" + shown + "\n")
        print(shown, flush=True)
        text = report.markdown([data])
        with open(f"{OUT}/peers.md", "w") as f:
            f.write(text)
        print(text, flush=True)
        whole = not (self.options.groups or self.options.rows or self.options.only or REHEARSAL)
        if whole or self.options.docs:
            report.write([data], (False,) if self.survey_cut_short() else (False, True))
        return 1 if any(r["peer"] == "gpukc" for r in bad) else 0


def main():
    options = arguments()
    shared = "/dev/shm"
    roomy = os.path.isdir(shared) and shutil.disk_usage(shared).free > 16e9
    options.arrays = tempfile.mkdtemp(prefix="gpukc-peers-", dir=shared if roomy else DIR)
    open(f"{OUT}/peers.txt", "w").close()
    run = Run(options)
    try:
        say(f"groups: {' '.join(run.names)}; {run.meta['gpu']}; arrays in {options.arrays}")
        for survey in (False, True):
            names = [g for g in run.names if report.surveyed(g) == survey]
            if run.left() > 30:
                run.prepare(names)
            for g in names:
                run.measure(g)
        return run.finish()
    finally:
        for child in run.children.values():
            child.kill()
        shutil.rmtree(options.arrays, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
