"""Run the named reproductions, or all of them."""

from __future__ import annotations

import sys

from reproduce import (
    bootstrap,
    calibration,
    exact,
    label_audit,
    labels_out,
    leave_one_out,
    mocap6,
    mocap_sequences,
    mocap_within,
    neural_crf,
    philadelphia,
    regions,
    traffic_accuracy,
    traffic_timing,
    weak,
)

NAMES = {
    "traffic-accuracy": traffic_accuracy.main,
    "traffic-timing": traffic_timing.main,
    "calibration": calibration.main,
    "weak": weak.main,
    "exact": exact.main,
    "loo": leave_one_out.main,
    "bootstrap": bootstrap.main,
    "philadelphia": philadelphia.main,
    "regions": regions.main,
    "neural-crf": neural_crf.main,
    "labels-out": labels_out.singles,
    "labels-out-tenths": labels_out.tenths,
    "label-audit": label_audit.main,
    "mocap-sequences": mocap_sequences.main,
    "mocap6": mocap6.main,
    "mocap-within": mocap_within.main,
}

chosen = sys.argv[1:] or list(NAMES)
unknown = sorted(set(chosen) - set(NAMES))
if unknown:
    sys.exit(f"reproduce: expected names from {', '.join(NAMES)}; got {', '.join(unknown)}")
for name in chosen:
    print(f"== {name} ==")
    NAMES[name]()
    print()
