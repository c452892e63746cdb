"""Every argument of every public function: a right answer or a sentence that names it, nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import doors
import fitonce as fo
from fitonce.cli.outputs import as_csv
from fitonce.core import parallel
from fitonce.core.arguments import shown
from fitonce.data.table_files import read_table
from fitonce.results.packing import pack_array, to_array

DOORS = {door.name: door for door in doors.doors()}


@pytest.mark.parametrize("name", list(DOORS))
def test_hostile_arguments_are_answered_or_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what is written lands there
    monkeypatch.setattr(parallel, "cores", lambda: 1)  # every number of workers would start some
    door, faults = DOORS[name], []
    if door.of is not None:
        door.of()  # what is compiled for it takes none of the arguments' time
    for parameter in door.parameters():
        for what, value in doors.HOSTILE.items():
            found = doors.fault(door, parameter.name, value)
            if found == "accepted" and what in doors.NEVER and doors.is_scalar(door, parameter):
                faults.append(f"{parameter.name} takes {what}")
            elif found not in (None, "accepted"):
                faults.append(f"{parameter.name} given {what}: {found}")
    assert not faults, f"{name}:\n" + "\n".join(faults)


def test_what_came_is_shown_in_one_short_line():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no text")

    assert shown(10**5000) == "an integer of 5,001 digits"
    assert shown([10**5000]) == "a list"
    assert shown(Silent()) == "a Silent"
    assert shown(np.zeros((30, 4))) == "an array of shape (30, 4)"
    assert shown("x" * 500) == "'" + "x" * 79 + "... (str)"
    assert shown(2.5) == "2.5"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fo.models.PoissonHMM(10**9), "n_states must be at most"),
        (lambda: fo.models.ARHMM(2, 10**12), "order must be at most"),
        (lambda: fo.models.NeuralARHMM(2, 1, hidden=10**12), "hidden must be at most"),
        (lambda: fo.models.HMM(2, "poisson", durations="poisson", stages=10**8), "stages must be at"),
        (lambda: fo.folds.blocks(100, 10, 10**12), "n, the number of folds, must be at most"),
        (lambda: fo.folds.points(2**62), "the length of the data must be at most"),
        (lambda: fo.graph([(0, 2**62)]), "the number of sites of adjacency must be at most"),
        (lambda: fo.basis.fourier(np.arange(9.0), 3.0, 10**12), "order must be at most"),
    ],
)
def test_sizes_are_refused_before_anything_is_made_and_say_what_would_fit(make, words):
    with doors.watched(), pytest.raises(fo.MemoryLimitError, match=words) as refused:
        make()
    assert "would take" in str(refused.value)


def test_folds_refuse_masks_of_integers_and_indices_given_twice():
    with pytest.raises(ValueError, match="index_sets: fold 0 is a mask of zeros and ones"):
        fo.folds.sites([[0, 1, 1, 0, 0]], 5)
    with pytest.raises(ValueError, match="index_sets: fold 1 has index 3 more than once"):
        fo.folds.sites([[0, 1], [3, 4, 3]], 5)
    assert fo.folds.sites([[1, 0]], 2 + 1).dropped[0].tolist() == [0, 1]


def test_infinite_priors_are_refused_where_they_are_given():
    with pytest.raises(ValueError, match="variance must be a positive number or one per channel"):
        fo.models.GaussianHMM(2, variance=np.inf)
    with pytest.raises(ValueError, match="shape must be a positive number, got inf"):
        fo.models.PoissonHMM(2, shape=np.inf)


@pytest.mark.parametrize("rows", [5, 30_000])
def test_empty_lines_at_the_end_of_a_table_are_no_rows_at_any_size(tmp_path, rows):
    path = tmp_path / "x.csv"
    for end, wanted in (("", rows), ("\n", rows), ("\n\n \n", rows), ("\n,\n", rows + 1)):
        path.write_text("a,b\n" + "\n".join(f"{k % 7},{k % 5}" for k in range(rows)) + end)
        assert len(read_table(path)) == wanted, repr(end)


def test_a_header_of_any_length_is_read_whole(tmp_path):
    path, names = tmp_path / "wide.csv", [f"column_{k}" for k in range(6_500)]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert list(read_table(path).columns) == names
    path.write_text(",".join([*names, "column_7"]) + "\n")
    with pytest.raises(ValueError, match="two columns named 'column_7'"):
        read_table(path)


def test_text_in_csv_is_no_formula():
    table = pd.DataFrame({"word": ["=1+1", "@SUM(A1)", "-2", "-cmd|x", "plain"], "n": [1, -2, 3, 4, 5]})
    words = [line.split(",")[0] for line in as_csv(table).splitlines()]
    assert words == ["word", "'=1+1", "'@SUM(A1)", "-2", "'-cmd|x", "plain"]


def test_an_array_of_a_damaged_file_is_refused_whatever_it_claims_to_be():
    packed = pack_array(np.arange(3.0))
    for dtype in ("a,(", "V8", "O", "<f8,<i4", "datetime64[D]", ""):
        with pytest.raises(ValueError, match="expected an array of numbers"):
            to_array(packed | {"dtype": dtype})
