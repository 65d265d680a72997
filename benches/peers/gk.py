"""gpukc's side of a row: the first set's inputs as files, `gpukc bench` on them, its result as a tensor."""
import json
import os
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass

import numpy as np
import torch

from common import DEV, REHEARSAL

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(os.environ.get("PEERS_RUNS", "3"))  # a row's time is the median of as many runs of the command


@dataclass
class Gk:
    """A kernel that computes what a row's peers compute."""
    file: str
    kernel: str
    inputs: object  # the tensors of a set -> {parameter: tensor or number}
    result: str = "out"


def run(gk, tensors, hot, check, timeout):
    """Times the kernel and gives its record; `check` takes the result and gives its error and whether that is too large."""
    began = time.time()
    path = os.path.join(os.environ["PEERS_ARRAYS"], str(os.getpid()))
    os.makedirs(path, exist_ok=True)
    try:
        arguments = [os.path.join(HERE, "kernels", gk.file), "--kernel", gk.kernel]
        for name, value in gk.inputs(*tensors).items():
            if isinstance(value, torch.Tensor):
                file = os.path.join(path, f"{name}.npy")
                np.save(file, value.cpu().numpy())
                value = file
            arguments += ["--in", f"{name}={value}"]
        result = os.path.join(path, "result.npy")
        out = ["--out", f"{gk.result}={result}"]
        if REHEARSAL:
            command(["run", *arguments, *out, "--device", "cpu"], timeout)
            runs = [dict(median_us=1.0, min_us=1.0, p90_us=1.0, method="none", sets=1)]
        else:
            bench = ["bench", *arguments, "--format", "json", *(["--hot"] if hot else [])]
            runs = [json.loads(command(bench + out, timeout).strip().splitlines()[-1])]
        err, wrong = check(torch.from_numpy(np.load(result)).to(DEV))
        while not REHEARSAL and len(runs) < RUNS:
            runs.append(json.loads(command(bench, timeout).strip().splitlines()[-1]))
    finally:
        shutil.rmtree(path, ignore_errors=True)
    runs.sort(key=lambda r: r["median_us"])
    middle = runs[len(runs) // 2]
    return dict(ms=statistics.median(r["median_us"] for r in runs) / 1e3, runs=[r["median_us"] for r in runs],
                min=middle["min_us"] / 1e3, p90=middle["p90_us"] / 1e3, reps=middle.get("runs"), per=middle.get("calls"),
                method=middle["method"], nbuf=middle["sets"], host_us=middle.get("host_us"), err=err, wrong=wrong,
                wall_s=round(time.time() - began, 2),
                config=" ".join(f"{r['registers']}r{'+' + str(r['local_bytes']) + 'B' if r['local_bytes'] else ''}"
                                for r in middle.get("resources", [])))


def command(arguments, timeout):
    done = subprocess.run([os.environ["PEERS_GPUKC"], *arguments], capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"gpukc {arguments[0]}: status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout
