"""What the paper reports, as its source writes it, each number with the label of its place.

Ghosh, Stephenson, Nguyen, Deshpande, Broderick: "Approximate Cross-Validation for Structured Models"
(NeurIPS 2020). A test looks every string up in the paper's source where that is at hand.
"""

from __future__ import annotations

from typing import NamedTuple

PLACES = {
    "fig:dodgers_withinseq": "Figure 1",
    "fig:crf": "Figure 2",
    "fig:crime_tracts": "Figure 3",
    "app:fig_NS_v_IJ": "Figure 4 (appendix)",
    "tab:dodgers": "Table 1 (appendix)",
    "tab:dodgers_timing": "Table 2 (appendix)",
    "supp:crf_v_time": "Figure 5 (appendix)",
    "fig:supp_mocap": "Figure 6 (appendix)",
    "fig:appendix_withinseq": "Figure 7 (appendix)",
    "fig:appendix_LFO": "Figure 8 (appendix)",
    "sec:exp": "section of experiments",
    "subsec:mocap": "section on motion capture (appendix)",
    "subsec:neural_crf": "section on the neural CRF (appendix)",
}  # tables and figures in the order of the paper; sections last


class Number(NamedTuple):
    """A number as the source writes it, and the label of the table, figure or section that has it."""

    tex: str
    label: str

    @property
    def text(self) -> str:
        """As a page shows it."""
        return self.tex.replace(r"\pm", "±").replace("{,}", ",")


def _accuracy(tex: str) -> Number:
    return Number(tex, "tab:dodgers")


def _time(tex: str) -> Number:
    return Number(tex, "tab:dodgers_timing")


RELATIVE_ERROR = {
    ("i.i.d.", 2): _accuracy(r"0.005 \pm 0.009"),
    ("i.i.d.", 5): _accuracy(r"0.006 \pm 0.01"),
    ("i.i.d.", 10): _accuracy(r"0.006 \pm 0.005"),
    ("contiguous", 2): _accuracy(r"0.003 \pm 0.003"),
    ("contiguous", 5): _accuracy(r"0.007 \pm 0.02"),
    ("contiguous", 10): _accuracy(r"0.007 \pm 0.006"),
}
"""Of the approximate loss, two standard deviations over ten folds; by folds and percent left out."""

TIMES = {
    ("i.i.d.", 5_000, "ij"): _time("1.1 mins"),
    ("i.i.d.", 5_000, "newton"): _time("10.5 hours"),
    ("i.i.d.", 5_000, "exact"): _time("61.1 hours"),
    ("contiguous", 5_000, "ij"): _time("1.3 mins"),
    ("contiguous", 5_000, "newton"): _time("10.5 hours"),
    ("contiguous", 5_000, "exact"): _time("61.3 hours"),
    ("i.i.d.", 10_000, "ij"): _time("2.2 mins"),
    ("i.i.d.", 10_000, "newton"): _time("19.9 hours"),
    ("i.i.d.", 10_000, "exact"): _time("185.8 hours"),
    ("contiguous", 10_000, "ij"): _time("2.4 mins"),
    ("contiguous", 10_000, "newton"): _time("19.9 hours"),
    ("contiguous", 10_000, "exact"): _time("182.4 hours"),
    ("i.i.d.", 50_400, "ij"): _time("11.0 mins"),
    ("i.i.d.", 50_400, "newton"): _time("98.6 hours"),
    ("i.i.d.", 50_400, "exact"): _time("682.2 hours"),
    ("contiguous", 50_400, "ij"): _time("10.6 mins"),
    ("contiguous", 50_400, "newton"): _time("99.1 hours"),
    ("contiguous", 50_400, "exact"): _time("683.9 hours"),
}
"""Of 1,000 folds of 10 %; by folds, steps and method. The paper writes 50000 for its 50,400 steps."""

TRAFFIC_STEPS = Number("50{,}400", "sec:exp")
TRAFFIC_SUBSET = Number("10{,}000", "sec:exp")
TRAFFIC_PARAMETERS = Number("11", "sec:exp")
TRAFFIC_MACHINE = Number("2.5GHz quad core Intel i7 processor with 16GB of RAM", "fig:dodgers_withinseq")
TRAFFIC_SCALED = Number("10 folds and multiply by 100", "sec:exp")
CRF_SENTENCES = Number("14,987", "sec:exp")
CRF_PARAMETERS = Number("99", "sec:exp")
CRF_FOLDS = Number("500", "sec:exp")
CRF_DAMPING = Number("10^{-5}", "sec:exp")
CRF_VECTORS = Number("300 dimensional", "subsec:neural_crf")
CRF_EPOCHS = Number("60 epochs", "subsec:neural_crf")
PHILADELPHIA_TRACTS = Number("384", "sec:exp")
PHILADELPHIA_PARAMETERS = Number("2", "sec:exp")
MOCAP_SEQUENCES = Number("124", "subsec:mocap")
MOCAP_TRAINING = Number("N = 100", "subsec:mocap")
MOCAP_STATES = Number("K = 16", "subsec:mocap")
MOCAP_PARAMETERS = Number("11{,}712", "sec:exp")
MOCAP_LONGEST = Number("1{,}484", "subsec:mocap")
MOCAP_FUTURE = Number("1337", "fig:appendix_LFO")
MOCAP_FUTURE_NAR = Number("1455", "fig:appendix_LFO")


def seconds(number: Number) -> float:
    """A time of the paper, which it gives in minutes or hours."""
    value, unit = number.tex.split()
    return float(value) * {"mins": 60.0, "hours": 3600.0}[unit]


def everything() -> list[Number]:
    """Every number of this module."""
    single = [value for value in globals().values() if isinstance(value, Number)]
    return [*single, *RELATIVE_ERROR.values(), *TIMES.values()]
