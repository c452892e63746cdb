"""The paper's tables and figures, one module each: `python -m reproduce [NAME ...]`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from inspect import signature

PAPER = {
    "traffic-accuracy": "traffic_accuracy:main",
    "traffic-scatter": "traffic_scatter:main",
    "traffic-timing": "traffic_timing:main",
    "newton-ij": "newton_ij:main",
    "neural-crf": "neural_crf:main",
    "philadelphia": "philadelphia:main",
    "mocap-sequences": "mocap_sequences:main",
    "mocap-within": "mocap_within:main",
    "mocap6": "mocap6:main",
}
"""What the page collects, in its order."""

BEYOND = {
    "calibration": "calibration:main",
    "weak": "weak:main",
    "exact": "exact:main",
    "loo": "leave_one_out:main",
    "bootstrap": "bootstrap:main",
    "regions": "regions:main",
    "labels-out": "labels_out:singles",
    "labels-out-tenths": "labels_out:tenths",
    "label-audit": "label_audit:main",
    "optima": "optima:main",
    "starts": "starts:main",
    "coverage": "coverage:main",
    "selection": "selection:main",
    "glm-hmm": "glm_hmm:main",
    "state-space": "state_space:main",
    "components": "components:main",
}
"""What the paper does not have."""

PAGE = {"page": "page:main"}
NAMES = PAPER | BEYOND | PAGE


def check(names: list[str]) -> None:
    """Refuse names that are not there."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise ValueError(f"expected names from {', '.join(NAMES)}; got {', '.join(unknown)}")


def run(names: list[str], part: str | None = None) -> None:
    """Run the named reproductions; none named: those of the paper, then the page that collects them.

    `part`: of one that has parts, some of them, separated by commas ("violent 2" of philadelphia, "3 sd" of
    calibration). What it prints is not recorded.
    """
    check(names)
    for name in names or [*PAPER, *PAGE]:
        module, function = NAMES[name].split(":")
        main = getattr(import_module(f"reproduce.{module}"), function)
        if part is not None and "part" not in signature(main).parameters:
            raise ValueError(f"{name} has no parts")
        print(f"== {name} ==")
        main() if part is None else main(part=part)
        print()


def chosen(part: str | None, known: Iterable[str]) -> list[str]:
    """The parts that were asked for, or all."""
    names = list(known)
    asked = names if part is None else [name.strip() for name in part.split(",")]
    unknown = sorted(set(asked) - set(names))
    if unknown:
        raise ValueError(f"expected parts from {', '.join(names)}; got {', '.join(unknown)}")
    return asked
