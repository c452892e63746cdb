from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit, check_cv

import fitonce as fo
from fitonce import folds

NAN = np.nan
UNEVEN = [np.ones(40), np.ones(60), np.r_[np.full(25, NAN), np.ones(25)]]  # 150 sites, 100-124 missing
FIVE = [np.ones(3), np.ones(2), np.full(4, NAN), np.ones(1), np.ones(2)]  # sequence 2 is missing


def sets(made: fo.Folds) -> list[list[int]]:
    return [indices.tolist() for indices in made.dropped]


def scored(made: fo.Folds) -> list[list[int]]:
    return [indices.tolist() for indices in made.scored]


MAKERS = {
    "iid": folds.iid(UNEVEN, 10, 5),
    "blocks": folds.blocks(UNEVEN, 10, 5),
    "future": folds.future(UNEVEN, [20, 30], horizon=10),
    "kfold": folds.kfold(UNEVEN, 3),
    "kfold at random": folds.kfold(UNEVEN, 3, blocks=False),
    "structures": folds.structures(UNEVEN),
    "sites": folds.sites([[99, 100], range(110, 130)], UNEVEN),
    "from_splitter": folds.from_splitter(TimeSeriesSplit(3), UNEVEN),
}


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
def test_weights_are_the_base_with_zeros_where_dropped(made):
    weights = made.weights
    assert weights.shape == (len(made), made.size)
    for row, dropped in zip(weights, made.dropped, strict=True):
        kept = np.setdiff1d(np.arange(made.size), dropped)
        assert not row[dropped].any()
        np.testing.assert_array_equal(row[kept], made.base[kept])
    np.testing.assert_array_equal(made.weights_of([1, 0, 1]), weights[[1, 0, 1]])


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
def test_scored_is_dropped_and_observed(made):
    for dropped, counted in zip(made.dropped, made.scored, strict=True):
        assert set(counted) <= set(dropped)
        assert made.base[counted].all()
        np.testing.assert_array_equal(dropped, np.unique(dropped))


BY_LENGTHS = {
    "iid": lambda *data, **how: folds.iid(*data, 10, 5, **how),
    "blocks": lambda *data, **how: folds.blocks(*data, 10, 5, **how),
    "future": lambda *data, **how: folds.future(*data, steps=3, **how),
    "kfold": lambda *data, **how: folds.kfold(*data, 3, **how),
    "structures": lambda *data, **how: folds.structures(*data, **how),
    "points": lambda *data, **how: folds.points(*data, **how),
    "sites": lambda *data, **how: folds.sites([[39], [130]], *data, **how),
    "from_splitter": lambda *data, **how: folds.from_splitter(KFold(3), *data, over="sequences", **how),
    "followed_by": lambda *data, **how: folds.followed_by(
        folds.sites([[39], [130]], 150), *data, 2, **how
    ),
}


@pytest.mark.parametrize("make", BY_LENGTHS.values(), ids=BY_LENGTHS)
def test_rows_of_all_sequences_are_told_apart_by_lengths(make):
    one, other = make(UNEVEN), make(np.concatenate(UNEVEN), lengths=[40, 60, 50])
    assert sets(one) == sets(other)
    assert scored(one) == scored(other)
    np.testing.assert_array_equal(other.lengths, [40, 60, 50])
    with pytest.raises(ValueError, match="lengths must sum to the number of rows, 150, got 90"):
        make(np.concatenate(UNEVEN), lengths=[40, 50])


def test_lengths_are_of_rows():
    with pytest.raises(ValueError, match=r"lengths= is for one array or table .*, got int"):
        folds.points(150, lengths=[100, 50])


RANDOM = {
    "iid": lambda seed: folds.iid(100, 10, 3, seed),
    "blocks": lambda seed: folds.blocks(100, 10, 3, seed),
    "kfold": lambda seed: folds.kfold(100, 3, blocks=False, seed=seed),
    "structures": lambda seed: folds.structures(100, k=3, seed=seed),
}


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_the_seed_decides(make):
    assert sets(make(1)) == sets(make(1)) != sets(make(2))
    assert "(seed 1)" in make(1).label


@pytest.mark.parametrize("maker", [folds.iid, folds.blocks])
@pytest.mark.parametrize(
    ("percent", "total", "size"),
    [(10, 100, 10), (2, 199, 3), (99.9, 10, 9), (0.57, 10_000, 57), (np.float64(2.3), 50_000, 1150)],
)
def test_size_is_the_floor_of_the_share(maker, percent, total, size):
    assert {len(indices) for indices in maker(total, percent, 4).dropped} == {size}


def test_iid_draws_its_share_of_observed_sites_only():
    made = folds.iid(UNEVEN, 20, 50)
    drawn = np.concatenate(made.dropped)
    assert {len(indices) for indices in made.dropped} == {25}  # of 125
    assert set(drawn) == set(range(100)) | set(range(125, 150))


def test_blocks_are_contiguous_shares_of_one_sequence_and_reach_its_ends():
    data = fo.sequences(UNEVEN)
    found = {0: set(), 1: set(), 2: set()}
    for block in folds.blocks(data, 10, 1000).dropped:
        np.testing.assert_array_equal(np.diff(block), 1)
        (sequence,) = set(data.sites["sequence"][block])
        assert len(block) == {0: 4, 1: 6, 2: 5}[sequence]
        assert data.weights[block].any()
        found[sequence].add(int(block[0]))
    assert found == {0: set(range(37)), 1: set(range(40, 95)), 2: set(range(121, 146))}


def test_blocks_choose_a_sequence_in_proportion_to_the_places_it_offers():
    made = folds.blocks([np.ones(10), np.ones(100)], 10, 2000)  # 10 and 91 places
    share = np.mean([block[0] < 10 for block in made.dropped])
    assert share == pytest.approx(10 / 101, abs=0.027)  # four standard errors


@pytest.mark.parametrize(
    ("options", "dropped", "counted"),
    [
        ({"start": 7}, [[7, 8, 9]], [[7, 8, 9]]),
        ({"steps": 2}, [[8, 9]], [[8, 9]]),
        ({"start": np.array([6, 8])}, [[6, 7, 8, 9], [8, 9]], [[6, 7, 8, 9], [8, 9]]),
        ({"steps": [2, 3], "horizon": 2}, [[8, 9], [7, 8, 9]], [[8, 9], [7, 8]]),
        ({"start": [8, 5], "horizon": 2}, [[8, 9], [5, 6, 7, 8, 9]], [[8, 9], [5, 6]]),
    ],
)
def test_future_leaves_out_the_end_and_scores_the_horizon(options, dropped, counted):
    made = folds.future(10, **options)
    assert (sets(made), scored(made)) == (dropped, counted)


def test_future_counts_within_each_sequence():
    data = [np.ones(3), np.ones(5)]
    assert sets(folds.future(data, 3)) == [[6, 7]]
    assert sets(folds.future(data, steps=1)) == [[2, 7]]
    assert sets(folds.future(data, steps=4)) == [[0, 1, 2, 4, 5, 6, 7]]


def test_sequences_without_a_whole_horizon_are_left_out_and_not_scored():
    made = folds.future([np.ones(3), np.ones(5)], start=[1, 2], horizon=2)
    assert (sets(made), scored(made)) == ([[1, 2, 4, 5, 6, 7], [2, 5, 6, 7]], [[1, 2, 4, 5], [5, 6]])


@pytest.mark.parametrize("blocks", [True, False])
def test_kfold_leaves_every_site_out_once(blocks):
    made = folds.kfold(10, 3, blocks=blocks)
    assert sorted(np.concatenate(made.dropped)) == list(range(10))
    assert sorted(map(len, made.dropped)) == [3, 3, 4]
    assert (sets(made) == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]) is blocks


def test_shares_of_several_sequences_are_of_one_of_them():
    assert "10 % of one sequence" in folds.blocks([[1] * 20, [1] * 30], 10, 3).describe()
    assert "of one sequence" not in folds.blocks([1] * 20, 10, 3).describe()
    with pytest.raises(ValueError, match=r"exclusive, got 150$"):  # no advice that does not help
        folds.blocks([[1] * 20, [1] * 30], 150, 3)


def test_sequences_with_nothing_to_score_are_no_folds():
    found = folds.structures(FIVE)
    assert sets(found) == [[0], [1], [3], [4]]
    assert "except 1 with nothing to score" in found.describe()


def test_structures_one_at_a_time_in_k_and_by_group():
    assert sets(folds.structures(3)) == [[0], [1], [2]]
    halves = folds.structures(7, k=2)
    assert sorted(np.concatenate(halves.dropped)) == list(range(7))
    assert sorted(map(len, halves.dropped)) == [3, 4]
    assert sets(halves) == sets(folds.structures(7, k=2)) != sets(folds.structures(7, k=2, seed=1))
    observed = folds.structures(FIVE, k=4)  # nothing was observed in sequence 2
    assert sorted(sets(observed)) == [[0], [1], [3], [4]]
    by_group = folds.structures(FIVE, groups=["b", "a", "b", "a", "c"])
    assert sets(by_group) == [[1, 3], [0, 2], [4]]
    assert scored(by_group) == [[1, 3], [0], [4]]
    assert by_group.kind == "sequences"


@pytest.mark.parametrize("given", [[3, 1], {1, 3}, range(1, 4, 2), np.arange(5) % 2 == 1])
def test_sites_takes_lists_sets_ranges_and_masks(given):
    assert sets(folds.sites([given], 5)) == [[1, 3]]


def test_splitters_leave_out_what_they_do_not_train_on_and_score_their_test_set():
    made = folds.from_splitter(TimeSeriesSplit(2), 6)
    assert (sets(made), scored(made)) == ([[2, 3, 4, 5], [4, 5]], [[2, 3], [4, 5]])
    assert sets(folds.from_splitter(KFold(2), 4)) == [[0, 1], [2, 3]]
    grouped = folds.from_splitter(GroupKFold(2), FIVE, over="sequences", groups=[0, 1, 0, 1, 0])
    assert (grouped.kind, sorted(sets(grouped))) == ("sequences", [[0, 2, 4], [1, 3]])


def test_integers_generators_and_pairs_are_splitters_as_for_check_cv():
    for k, size in ((3, 10), (4, 9)):
        ours, theirs = folds.from_splitter(k, size), folds.from_splitter(KFold(k), size)
        assert sets(ours) == sets(theirs)
        assert scored(ours) == scored(theirs)
    pairs = list(TimeSeriesSplit(2).split(np.arange(6)))
    of_a_splitter = folds.from_splitter(TimeSeriesSplit(2), 6)
    for given in (pairs, iter(pairs), (pair for pair in pairs), check_cv(pairs)):
        assert folds.from_splitter(given, 6).fingerprint == of_a_splitter.fingerprint
    masks = [(np.arange(4) < 2, np.arange(4) == 3)]
    made = folds.from_splitter(masks, 4)
    assert (sets(made), scored(made)) == ([[2, 3]], [[3]])
    assert folds.from_splitter(2, FIVE, over="sequences").kind == "sequences"
    assert folds.from_splitter(2, 4).label == "2-fold over runs of sites"


def test_runs_of_neighbours_and_splits_of_the_future_are_along_time():
    pairs = list(TimeSeriesSplit(2).split(np.arange(6)))
    for splitter in (3, TimeSeriesSplit(2), TimeSeriesSplit(2, gap=1), pairs):
        assert folds.from_splitter(splitter, 6).along_time
    for splitter in (KFold(3), KFold(3, shuffle=True, random_state=0), [pairs[0], pairs[1][::-1]]):
        assert not folds.from_splitter(splitter, 6).along_time
    assert not folds.from_splitter(3, FIVE, over="sequences").along_time


@pytest.mark.parametrize("dated", [True, False])
def test_splitters_of_sktime_get_the_index_and_nothing_else(dated):
    """What sktime 1.2 gives for `ExpandingWindowSplitter([1, 2], 6, 3)`."""
    index = pd.date_range("2024-01-01", periods=11) if dated else None
    x = pd.Series(np.arange(11.0), index)
    made = folds.from_splitter(splitter := Expanding(6, 3), x)
    assert (sets(made), scored(made)) == ([list(range(6, 11)), [9, 10]], [[6, 7], [9, 10]])
    assert isinstance(splitter.saw, pd.DatetimeIndex if dated else pd.RangeIndex)
    np.testing.assert_array_equal(splitter.saw, np.arange(11) if index is None else index)


def test_splitters_of_sktime_split_each_of_several_sequences():
    folds.from_splitter(splitter := Expanding(2, 20), [np.ones(3), np.ones(2)])
    assert splitter.saw.tolist() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


@pytest.mark.parametrize("whole", [True, False])
def test_folds_of_skforecast_end_where_theirs_end(whole):
    """What skforecast 0.26 gives for `TimeSeriesFold(3, 5, refit=True, fixed_train_size=False, gap=1)`,
    with and without `return_all_indexes`."""
    x = pd.Series(np.arange(13.0), pd.date_range("2024-01-01", periods=13))
    made = folds.from_splitter(Windows(5, 3, gap=1, refit=True, whole=whole), x)
    assert sets(made) == [list(range(5, 13)), list(range(8, 13)), [11, 12]]
    assert scored(made) == [[6, 7, 8], [9, 10, 11], [12]]


def test_rebased_keeps_the_index_sets_and_stops_scoring_what_is_missing():
    made = folds.future(5, [2, 3], horizon=2)
    assert made.rebased(np.ones(5)) is made
    again = made.rebased([1, 1, 1, 0, 1])
    assert (sets(again), scored(again)) == ([[2, 3, 4], [3, 4]], [[2], [4]])
    assert again.weights.tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]


def test_describe_and_repr_say_how_many_how_made_and_how_large():
    line = "3 folds, 3-fold over time, in blocks: 400 of 1,200 points scored in each"
    assert folds.kfold(1200, 3).describe() == line
    assert repr(folds.kfold(1200, 3)) == f"Folds({line})"
    line = "2 folds, 2-fold over sequences (seed 7): 1 to 2 of 3 sequences scored in each"
    assert folds.structures(3, k=2, seed=7).describe() == line


class Pairs:
    def __init__(self, *pairs):
        self.pairs = pairs

    def split(self, X, y=None, groups=None):
        return iter(self.pairs)


class Expanding:
    """As sktime's `ExpandingWindowSplitter` for two steps ahead: `split(y)` reads an index."""

    def __init__(self, first, step):
        self.first, self.step = first, step

    def split(self, y):
        self.saw = y.index
        for cutoff in range(self.first, len(y) - 1, self.step):
            yield np.arange(cutoff), np.arange(cutoff, cutoff + 2)


class Windows:
    """As skforecast's `TimeSeriesFold`, whose training set grows."""

    def __init__(self, first, steps, gap=0, *, refit=False, whole=False):
        self.first, self.steps, self.gap, self.refit, self.whole = first, steps, gap, refit, whole

    def split(self, X, as_pandas=False):
        if not isinstance(X, (pd.Series, pd.DataFrame, pd.Index, dict)):
            raise TypeError(
                f"X must be a pandas Series, DataFrame, Index or a dictionary. Got {type(X)}."
            )
        found = []
        for number, cutoff in enumerate(range(self.first, len(X) - self.gap, self.steps)):
            end = min(cutoff + self.gap + self.steps, len(X))
            train = range(cutoff if self.refit else self.first)
            parts = [train, range(cutoff, end), range(cutoff + self.gap, end)]
            parts = parts if self.whole else [[part.start, part.stop] for part in parts]
            window = None if self.whole else []
            found.append([number, parts[0], window, *parts[1:], self.refit or number == 0])
        return found


WHOLE = "n, the number of folds, must be an integer of at least 1, got"
STARTS = "must be a non-negative integer or a list of them, got"
MISSING = [1.0, 1.0, NAN, NAN]
SPARSE = np.r_[1.0, np.full(10**6, NAN), 1.0]  # blocks of 10 % all but never meet an observed site


class Broken:
    def split(self, X, y=None, groups=None):
        raise KeyError("no key")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: folds.iid(True, 10, 1), "folds need the data or its length, got True"),
        (lambda: folds.iid(None, 10, 1), "folds need the data or its length, got None"),
        (lambda: folds.iid(0, 10, 1), "the length of the data must be at least 1, got 0"),
        (lambda: folds.iid(9, 0, 1), "percent must be between 0 and 100, exclusive, got 0"),
        (lambda: folds.iid(9, 100, 1), "percent must be between 0 and 100, exclusive, got 100"),
        (lambda: folds.iid(9, 10, 1), "10 % of 9 observed sites is less than one"),
        (
            lambda: folds.blocks([[1] * 9, [1] * 2], 20, 1),
            "20 % of 2 steps of sequence 1 is less than one; leave whole sequences out instead",
        ),
        (lambda: folds.iid(10, 10, 0), f"{WHOLE} 0"),
        (lambda: folds.blocks(10, 10, 2.5), f"{WHOLE} 2.5"),
        (lambda: folds.blocks(SPARSE, 1e-4, 3), "fold 0: 1000 blocks in a row held only missing sites"),
        (lambda: folds.future(9), "future takes either start or steps, got neither"),
        (lambda: folds.future(9, 3, steps=1), "future takes either start or steps, got both"),
        (lambda: folds.future(9, -1), f"start {STARTS} -1"),
        (lambda: folds.future(9, np.array([1.5, 2])), f"start {STARTS} array([1.5, 2. ])"),
        (lambda: folds.future(9, steps=[]), f"steps {STARTS} []"),
        (
            lambda: folds.future(9, 3, horizon=0),
            "horizon must be an integer of at least 1 or None, got 0",
        ),
        (
            lambda: folds.future(9, 3, horizon=1.5),
            "horizon must be an integer of at least 1 or None, got 1.5",
        ),
        (
            lambda: folds.future(9, [5, 8], horizon=2),
            "start: fold 1 (start 8) leaves out 1 step, fewer than the horizon of 2; "
            "start must be at most 7",
        ),
        (
            lambda: folds.future([np.ones(3), np.ones(9)], steps=[4, 2], horizon=3),
            "steps: fold 1 (steps 2) leaves out 2 steps of the longest sequence, fewer than the "
            "horizon of 3; steps must be at least 3",
        ),
        (
            lambda: folds.future(9, [5, 8], horizon=9),
            "horizon must be less than the 9 steps of data, got 9",
        ),
        (lambda: folds.future(9, [5, 9]), "fold 1 leaves out nothing"),
        (lambda: folds.future(9, [5, 0]), "fold 1 leaves out all observed sites; at least one"),
        (lambda: folds.kfold(9, 1), "k must be an integer between 2 and the number of sites (9), got 1"),
        (
            lambda: folds.kfold(9, 2.5),
            "k must be an integer between 2 and the number of sites (9), got 2.5",
        ),
        (
            lambda: folds.structures(3, k=4),
            "an integer between 2 and the number of sequences (3), got 4",
        ),
        (
            lambda: folds.structures(3, k=2, groups=[0, 1, 1]),
            "structures takes one of k, groups and n, got more",
        ),
        (
            lambda: folds.structures(np.ones(9)),
            "leaving sequences out needs at least 2 sequences, got 1",
        ),
        (
            lambda: folds.structures(3, groups=[0, 1]),
            "one label for each of 3 sequences, got shape (2,)",
        ),
        (
            lambda: folds.structures(3, groups=["a", None, "b"]),
            "every sequence, but sequence 1 has none",
        ),
        (
            lambda: folds.structures(FIVE, groups=[0, 1, 2, 3, 4]),
            "fold 2 has nothing to score: all sequences it would score are",
        ),
        (lambda: folds.sites(9, [[1]]), "a list of index sets and then the data, got int first"),
        (lambda: folds.sites([1, 2], 9), "one per fold, got a single list of indices"),
        (lambda: folds.sites([], 9), "there must be at least one fold, got none"),
        (lambda: folds.sites([[1], []], 9), "fold 1 leaves out nothing"),
        (lambda: folds.sites([[1], [False] * 9], 9), "fold 1 leaves out nothing"),
        (lambda: folds.sites([[1], [True] * 8], 9), "fold 1: a mask must have 9 entries, got (8,)"),
        (lambda: folds.sites([[1], [0.5]], 9), "fold 1 must be a list of integer indices, got [0.5]"),
        (lambda: folds.sites([[1], [[2]]], 9), "fold 1 must be a list of integer indices, got [[2]]"),
        (lambda: folds.sites([[1], [9]], 9), "fold 1 has index 9, outside the 9 sites (0 to 8)"),
        (lambda: folds.sites([[1], [-1]], 9), "fold 1 has index -1, outside the 9 sites (0 to 8)"),
        (
            lambda: folds.sites([[0], [2]], MISSING),
            "fold 1 has nothing to score: all sites it would score",
        ),
        (
            lambda: folds.sites([[2, 1], [0, 1]], MISSING),
            "fold 1 leaves out all observed sites; at least one",
        ),
        (lambda: folds.from_splitter([], 9), "splitter: there must be at least one fold, got none"),
        (lambda: folds.from_splitter(Broken(), 9), "sites with this y and groups: KeyError: 'no key'"),
        (
            lambda: folds.from_splitter(SimpleNamespace(split=3), 9),
            "splitter must be a splitter with a m",
        ),
        (lambda: folds.from_splitter("KFold", 9), "splitter must be a splitter with a method split"),
        (
            lambda: folds.from_splitter({0: [1]}, 9),
            "an integer, or pairs of train and test indices, got",
        ),
        (lambda: folds.from_splitter(None, 9), "or pairs of train and test indices, got None"),
        (
            lambda: folds.from_splitter(True, 9),
            "splitter must be a splitter with a method split, an integer, or pairs",
        ),
        (
            lambda: folds.from_splitter(10, 9),
            "splitter must be an integer between 2 and the number of sites (9), got 10",
        ),
        (
            lambda: folds.from_splitter(2.5, 9),
            "an integer between 2 and the number of sites (9), got 2.5",
        ),
        (
            lambda: folds.from_splitter([([0, 1], [2]), [3]], 9),
            "splitter must give pairs of train and test indices, got [3] for fold 1",
        ),
        (
            lambda: folds.from_splitter([([0, 9], [2])], 9),
            "splitter: fold 0 trains on index 9, outside the 9 sites (0 to 8)",
        ),
        (
            lambda: folds.from_splitter([([0.5], [2])], 9),
            "splitter: train and test of fold 0 must be lists of indices or masks of 9, got [0.5]",
        ),
        (lambda: folds.from_splitter(Expanding(4, 2), 9, y=[1] * 9), "y must be None: "),
        (lambda: folds.from_splitter(Windows(4, 2), 9, groups=[1] * 9), "groups must be None: "),
        (
            lambda: folds.from_splitter(Windows(4, 2), 9),
            "splitter: fold 1 is predicted by the fit of an earlier fold, and folds here have their own",
        ),
        (
            lambda: folds.from_splitter(KFold(), 9, over="days"),
            "over must be one of ('sites', 'sequences'), got 'days'",
        ),
        (
            lambda: folds.from_splitter(Pairs(([0], [1]), ([0, 1], [1, 2])), 9),
            "fold 1 scores site 1, which it does not leave out",
        ),
        (lambda: folds.from_splitter(Pairs(([0], [9])), 9), "fold 0 scores site 9, which it does not"),
        (lambda: folds.kfold(90, 2).rebased(np.ones(1000)), "folds have 90 sites, data has 1,000"),
    ],
)
def test_folds_that_cannot_be_are_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_some_folds_are_those_folds():
    folds = fo.folds.blocks(40, percent=10, n=6, seed=1)
    some = folds.some([4, 1])
    np.testing.assert_array_equal(some.weights, folds.weights[[4, 1]])
    assert [list(d) for d in some.dropped] == [list(folds.dropped[4]), list(folds.dropped[1])]
    with pytest.raises(ValueError, match="folds must be between 0 and 5, got 6"):
        folds.some([6])


def test_runs_of_sequences_are_left_out_together():
    folds = fo.folds.structures(7, k=3, blocks=True)
    assert [part.tolist() for part in folds.dropped] == [[0, 1, 2], [3, 4], [5, 6]]
    assert folds.together
    assert fo.folds.structures(4, groups=["a", "b", "a", "b"]).together
    assert not fo.folds.structures(7, k=3).together
    with pytest.raises(ValueError, match="blocks=True puts runs of sequences into k folds, got no k"):
        fo.folds.structures(7, blocks=True)
    with pytest.raises(ValueError, match="blocks must be true or false, got 'yes'"):
        fo.folds.structures(7, k=3, blocks="yes")


def test_points_in_no_fold_are_counted():
    few = fo.folds.blocks(np.arange(300.0), percent=10, n=10, seed=0)
    never = 300 - len(np.unique(np.concatenate(few.scored)))
    assert f"scored in each, {never} in none" in few.describe()
    for all_of_them in (
        fo.folds.kfold(np.arange(300.0), 5),
        fo.folds.future(np.arange(300.0), start=[200, 250]),
    ):
        assert "in none" not in all_of_them.describe()
