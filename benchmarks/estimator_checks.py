"""scikit-learn's own checks of an estimator, on `fo.sklearn.Estimator`: which pass, and which do not apply to
sequences. Prints the table of docs/peers.md."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import fitonce as fo

ORDER = "rows are steps of a sequence: the state at a step depends on the steps around it"
# Of scikit-learn's own tests, but not of what it asks of others.
MORE = (
    "check_dataframe_column_names_consistency", "check_set_output_transform_pandas",
    "check_set_output_transform_polars", "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
)  # fmt: skip
NOT_APPLICABLE = {
    "check_methods_sample_order_invariance": f"{ORDER}, so that another order gives other predictions",
    "check_methods_subset_invariance": f"{ORDER}, so that some of the rows alone give other predictions",
}


def results() -> dict[str, tuple[str, str]]:
    """The status of each check, passed, failed or skipped, and why it does not pass; of a check that runs
    several times, the worst."""
    from sklearn.utils import estimator_checks

    estimator = fo.sklearn.Estimator(fo.models.GaussianHMM(2), restarts=1)
    found: dict[str, tuple[str, str]] = {}
    for one in estimator_checks.check_estimator(estimator, on_fail=None, on_skip=None):
        name, status = one["check_name"], one["status"]
        if found.get(name, ("passed", ""))[0] == "passed":
            found[name] = status, "" if one["exception"] is None else str(one["exception"])
    for name in MORE:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of columns without names, which the checks bring
                getattr(estimator_checks, name)("Estimator", estimator)
            found[name] = "passed", ""
        except AssertionError as error:
            found[name] = "failed", str(error)
    return found


def rows(found: dict[str, tuple[str, str]]) -> Iterator[str]:
    """Lines of the table."""
    passed = [name for name, (status, _) in found.items() if status == "passed"]
    yield "| checks | |"
    yield "|---|---|"
    yield f"| pass ({len(passed)}) | {', '.join(name.removeprefix('check_') for name in passed)} |"
    for name, (status, why) in found.items():
        short = name.removeprefix("check_")
        if status == "skipped":
            yield f"| {short}: not run | {why} |"
        elif status != "passed" and name in NOT_APPLICABLE:
            yield f"| {short}: does not apply | {NOT_APPLICABLE[name]} |"
        elif status != "passed":
            yield f"| {short}: FAILS | {' '.join(why.split())[:200]} |"


def main() -> None:
    import sklearn

    print(f"scikit-learn {sklearn.__version__}")
    print("\n".join(rows(results())))
