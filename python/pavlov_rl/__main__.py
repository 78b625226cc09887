"""The command `pavlov`, also as `python -m pavlov_rl`."""

import sys

from . import _native


def main() -> int:
    """Runs the command with the arguments of the process; returns its exit code."""
    return _native.command(["pavlov", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
