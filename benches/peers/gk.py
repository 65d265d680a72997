"""gpukc's side of a row: the first set's inputs as files, `gpukc bench` on them, its results as tensors."""
import json
import os
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass

import numpy as np
import torch

from common import DEV, REHEARSAL, bf16

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(os.environ.get("PEERS_RUNS", "3"))  # a row's time is the median of as many runs of the command


@dataclass
class Gk:
    """A kernel that computes what a row's peers compute."""
    file: str
    kernel: str
    inputs: object  # the tensors of a set -> {parameter: tensor or number}
    result: object = "out"  # or several, in the peers' order


def save(file, tensor):
    """As .npy, where bf16 has no name: its bits are a u16's."""
    tensor = tensor.cpu()
    np.save(file, tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == bf16 else tensor.numpy())


def load(file):
    array = np.load(file)
    bits = array.dtype == np.uint16  # no row has a result of u16
    return (torch.from_numpy(array.view(np.int16)).view(bf16) if bits else torch.from_numpy(array)).to(DEV)


def run(gk, tensors, hot, check, timeout):
    """Times the kernel and gives its record, with what `check` says of the result."""
    began = time.time()
    path = os.path.join(os.environ["PEERS_ARRAYS"], str(os.getpid()))
    os.makedirs(path, exist_ok=True)
    try:
        arguments = [os.path.join(HERE, "kernels", gk.file), "--kernel", gk.kernel]
        for name, value in gk.inputs(*tensors).items():
            if isinstance(value, torch.Tensor):
                file = os.path.join(path, f"{name}.npy")
                save(file, value)
                value = file
            arguments += ["--in", f"{name}={value}"]
        names = gk.result if isinstance(gk.result, tuple) else (gk.result,)
        results = [os.path.join(path, f"result_{name}.npy") for name in names]
        out = [word for name, file in zip(names, results) for word in ("--out", f"{name}={file}")]
        if REHEARSAL:
            command(["run", *arguments, *out, "--device", "cpu"], timeout)
            runs = [dict(median_us=1.0, min_us=1.0, p90_us=1.0, method="none", sets=1)]
        else:
            bench = ["bench", *arguments, "--format", "json", *(["--hot"] if hot else [])]
            runs = [json.loads(command(bench + out, timeout).strip().splitlines()[-1])]
        verdict = check(tuple(map(load, results)))
        while not REHEARSAL and len(runs) < RUNS:
            runs.append(json.loads(command(bench, timeout).strip().splitlines()[-1]))
    finally:
        shutil.rmtree(path, ignore_errors=True)
    runs.sort(key=lambda r: r["median_us"])
    middle = runs[len(runs) // 2]
    return dict(ms=statistics.median(r["median_us"] for r in runs) / 1e3, runs=[r["median_us"] for r in runs],
                min=middle["min_us"] / 1e3, p90=middle["p90_us"] / 1e3, reps=middle.get("runs"), per=middle.get("calls"),
                method=middle["method"], nbuf=middle["sets"], host_us=middle.get("host_us"), wall_s=round(time.time() - began, 2),
                config=" ".join(f"{r['registers']}r{'+' + str(r['local_bytes']) + 'B' if r['local_bytes'] else ''}"
                                for r in middle.get("resources", [])), **verdict)


def command(arguments, timeout):
    done = subprocess.run([os.environ["PEERS_GPUKC"], *arguments], capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"gpukc {arguments[0]}: status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout
