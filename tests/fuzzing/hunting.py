"""Rounds of random inputs of one kind, and the shortest recipe of every new failure."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pprint import pformat
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzzing.kinds import KINDS, try_one
from fuzzing.outcomes import Outcome

SHRINKING = 60.0  # seconds for a shorter recipe of the same failure
FOUND = Path(__file__).parents[1] / "found"


class _Enough(BaseException):
    """Ends a round."""


class Hunt:
    """Counts of what came of inputs, by kind, and failures that are known.

    `told`: called with every recipe before it is tried, so that what kills the process is known.
    """

    def __init__(self, told: Callable[[str, Any], None] = lambda kind, recipe: None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.known: dict[tuple[str, str, str], Path | None] = {}
        self.told = told

    def round(self, kind: str, start: int, n: int, until: float, write: bool = True) -> None:
        """`n` inputs, or fewer where time ends; a new failure is shortened and written down."""
        shortest: list[tuple[Outcome, Any]] = []
        stop = [until]

        @seed(start)
        @settings(
            max_examples=n,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(KINDS[kind].recipes)
        def tries(recipe: Any) -> None:
            if time.monotonic() > stop[0]:
                raise _Enough
            self.told(kind, recipe)
            found = try_one(kind, recipe)
            if shortest:
                if (found.kind, found.where) != (shortest[0][0].kind, shortest[0][0].where):
                    return
            else:
                self.counts[kind, found.kind] += 1
                if not found.failed or (kind, found.kind, found.where) in self.known:
                    return
                stop[0] = time.monotonic() + SHRINKING
            if not shortest or len(repr(recipe)) <= len(repr(shortest[0][1])):
                shortest[:] = [(found, recipe)]
            raise AssertionError(found.text)

        with suppress(AssertionError, _Enough):
            tries()
        if shortest:
            found, recipe = shortest[0]
            path = write_test(kind, found, recipe) if write else None
            self.known[kind, found.kind, found.where] = path
            print(f"{kind}: {found.kind}: {found.text[:300]}\n  {path}\n  {recipe!r:.1000}", flush=True)


def hunt(seed: int, until: float, folder: str, number: int, kinds: list[str]) -> None:
    """The work of one process: rounds of every kind, until it is time."""
    current, log = Path(folder) / f"current-{number}", Path(folder) / f"counts-{number}"

    def told(kind: str, recipe: Any) -> None:
        current.write_text(repr((kind, recipe)))

    found = Hunt(told)
    while time.monotonic() < until:
        for kind in kinds:
            found.round(kind, seed, KINDS[kind].each_round, until)
            seed += 1
            log.write_text(
                repr((dict(found.counts), [(*key, str(p)) for key, p in found.known.items()]))
            )
    current.unlink(missing_ok=True)


def write_test(kind: str, found: Outcome, recipe: Any, folder: Path = FOUND) -> Path:
    """A test of one recipe, ready to run."""
    digest = hashlib.sha256(repr((kind, recipe)).encode()).hexdigest()[:8]
    folder.mkdir(exist_ok=True)
    path = folder / f"test_{kind}_{digest}.py"
    said = " ".join(f"{found.kind}: {found.text}".split()).replace("\\", "/").replace('"""', "'''")
    literal = pformat(recipe, width=95, sort_dicts=False)
    path.write_text(
        f'"""Found by `make fuzz`; it was: {said[:60]}."""\n\n'
        "from math import inf, nan  # noqa: F401\n\n"
        "from fuzzing.kinds import require_sound\n\n"
        f"RECIPE = {literal}\n\n\n"
        f"def test_{kind}_{digest}():\n"
        f'    require_sound("{kind}", RECIPE)\n'
    )
    ruff = shutil.which("ruff", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if ruff is not None:
        subprocess.run([ruff, "format", "--quiet", path], check=False)
    return path
