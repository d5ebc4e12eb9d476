"""The program ``fedbo``, which the package carries."""

import sys

from fedbo import _fedbo


def main() -> int:
    """Run the program with the arguments of this process; return its exit status."""
    return _fedbo.run_program(["fedbo", *sys.argv[1:]])
