"""Run the named reproductions, or all of the paper's; `list` names them."""

from __future__ import annotations

import sys

from reproduce import BEYOND, PAPER, check, run

if sys.argv[1:] == ["list"]:
    print(f"the paper's: {', '.join(PAPER)}\nbeyond it: {', '.join(BEYOND)}\nthe page: page")
    sys.exit()
try:
    check(sys.argv[1:])
except ValueError as error:
    sys.exit(f"reproduce: {error}")
run(sys.argv[1:])
