"""Run the named reproductions, or all of the paper's; `list` names them."""

from __future__ import annotations

import argparse
import sys

from reproduce import BEYOND, PAPER, check, run

if sys.argv[1:] == ["list"]:
    print(f"the paper's: {', '.join(PAPER)}\nbeyond it: {', '.join(BEYOND)}\nthe page: page")
    sys.exit()
words = argparse.ArgumentParser("python -m reproduce", description=__doc__)
words.add_argument("names", nargs="*")
words.add_argument("--part", help="some parts of one that has parts, separated by commas; not recorded")
given = words.parse_args()
try:
    check(given.names)
    run(given.names, given.part)
except ValueError as error:
    sys.exit(f"reproduce: {error}")
