#!/usr/bin/env python3
"""Times programs of every memory-bound family on shapes that nothing was tuned for, against the time that their bytes take.

    benches/sweep/sweep.py [--gpukc PATH] [--only REGEX] [--sample COUNT] [--check]

The programs are those of programs.gk. A case is one of them, an element type and a shape: `gpukc bench` on random inputs. Its floor
is 2.2 µs, which an empty kernel takes in a graph, and the bytes of inputs and results at the rate of a copy. Gathers and scatters
move more than those bytes, scans of one dimension wait, exact functions take instructions: not every case can reach its floor, but
what stands out among its neighbours is a cliff. A case takes half a second, of which its timing is a small part; there are 1,700.
Needs a GPU, and Python alone.
"""
import argparse
import json
import os
import random
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
EMPTY_US = 2.2
FEW = 0.7  # cases below this part of their floor's rate are listed again

# Shapes by the rank of a kernel's first parameter, or by name; the first dim is slowest.
SHAPES = {
    1: [(1 << 24,), (10000019,), (5000000,), (1000000,), (40000,)],
    2: [(4096, 4096), (10000, 3001), (2048, 12288), (300000, 40), (1000000, 10), (65536, 1024), (100000, 100), (20000, 777),
        (512, 50257), (32, 50257), (7, 1000003), (3, 1000000), (64, 65536), (1000, 10000), (33, 333333), (200000, 63),
        (1000000, 3), (5000, 2000), (256, 16384), (4097, 4099)],
    3: [(64, 1000, 512), (16, 512, 4096), (128, 500, 33), (1000, 1000, 5), (2, 100000, 64), (32, 1000, 300), (100000, 8, 16),
        (1000, 10, 1000), (3, 1000, 2000), (50, 37, 4099), (4096, 64, 64), (300, 300, 100)],
    "planes": [(4096, 4096), (3000, 5003), (1080, 1920), (720, 1279), (20000, 257), (300, 40000)],
    "volumes": [(256, 256, 256), (100, 300, 301), (64, 1000, 130)],
}


def programs():
    """Each kernel's name, text, element types, the parameters' dims, and the shapes to try."""
    with open(os.path.join(HERE, "programs.gk"), encoding="utf-8") as file:
        parts = re.split(r"^/// (.*)\n(?=kernel)", file.read(), flags=re.M)
    for words, text in zip(parts[1::2], parts[2::2]):
        text = re.split(r"^//", text, flags=re.M)[0]
        types = [word for word in words.split() if word not in SHAPES]
        places = [word for word in words.split() if word in SHAPES]
        name, parameters = re.match(r"kernel (\w+)\((.*?)\)", text, flags=re.S).groups()
        inputs = {key: dims.split(", ") for key, dims in re.findall(r"(\w+): \w+\[(.*?)\]", parameters)}
        rank = len(next(iter(inputs.values())))
        yield name, text, types, inputs, SHAPES[places[0] if places else rank]


def cases():
    """A name, the text, and what to generate for each input."""
    for kernel, text, types, inputs, shapes in programs():
        for ty in types:
            typed = re.sub(r"\bf32\b", ty, text)
            for shape in shapes:
                dims = dict(zip(next(iter(inputs.values())), shape))
                sources = {key: f"rand:{'x'.join(str(dims[dim]) for dim in own)}" for key, own in inputs.items()}
                yield f"{kernel} {ty} {'x'.join(map(str, shape))}", typed, sources


def measure(gpukc, text, sources, rate, runs):
    """The part of a case's time that its floor is, and what to print."""
    inputs = [word for name, source in sources.items() for word in ("--in", f"{name}={source}")]
    command = [gpukc, "bench", "-", *inputs, "--format", "json", "--runs", str(runs), "--timeout", "60"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode == 3:
        raise SystemExit(done.stderr)
    if done.returncode:
        return 0, f"status {done.returncode}: {done.stderr.strip()[:200]}"
    said = json.loads(done.stdout.strip().splitlines()[-1])
    part = (EMPTY_US + said["bytes"] / rate / 1e3) / said["median_us"]
    local = sum(launch["local_bytes"] for launch in said["resources"])
    spilled = f", {local} bytes of local memory" if local else ""
    return part, f"{said['median_us']:9.1f} µs {part:5.0%}  {said['bytes'] / 1e6:6.1f} MB, {len(said['resources'])} launches{spilled}"


def sweep(given, chosen):
    """Measures and prints one case after the other, then the slow ones again, sorted."""
    done = []
    for name, text, sources in chosen:
        part, words = measure(given.gpukc, text, sources, given.rate, given.runs)
        done.append((part, f"{name:40} {words}"))
        print(done[-1][1], flush=True)
    slow = sorted(case for case in done if case[0] < FEW)
    print(f"\n{len(done)} cases, {len(slow)} below {FEW:.0%}:", *(line for _, line in slow), sep="\n")


def check(gpukc, chosen):
    for text in dict.fromkeys(text for _, text, _ in chosen):
        subprocess.run([gpukc, "check", "-"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpukc", default="gpukc")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases in whose names this is found")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="so many of the cases, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--rate", type=float, default=4180, metavar="GB/S", help="what a copy reaches")
    parser.add_argument("--runs", type=int, default=9, help="timings of a case")
    parser.add_argument("--check", action="store_true", help="check the programs, without a GPU")
    given = parser.parse_args()
    chosen = [case for case in cases() if re.search(given.only, case[0])]
    if given.sample is not None:
        chosen = random.Random(given.seed).sample(chosen, min(given.sample, len(chosen)))
    if given.check:
        return check(given.gpukc, chosen)
    sweep(given, chosen)


if __name__ == "__main__":
    main()
