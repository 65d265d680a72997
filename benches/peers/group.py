"""`group.py NAME` measures one group; peers.py starts it and reads its records."""
import importlib
import sys

from harness import Harness

if __name__ == "__main__":
    name = sys.argv[1]
    Harness(name).main(importlib.import_module(f"groups.{name}").rows)
