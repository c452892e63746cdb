"""Kalman filter and its adjoint as plain loops over steps, for sixteen folds side by side.

    y_t = Z_t a_t + d_t + e_t,  e_t ~ N(0, H_t)        a_t+1 = T_t a_t + c_t + n_t,  n_t ~ N(0, W_t)

The first state has the mean A_1[:, 0], the covariance P_1 and diffuse directions A_1[:, 1:]: their
coefficients have a flat prior. The filter carries them along as further columns of its mean A (n, M).
They are integrated over at the end of a sequence, exactly: de Jong's form of the diffuse likelihood.

An observation of weight w has the information of w observations: its variance is F + (1 / w - 1) S, with
F = Z P Z' + H. With G = w F + (1 - w) S nothing is divided by w, which may be zero:

    log p_t = -1/2 (w C log 2 pi + log |G| - (1 - w) log |S| + w v' G^-1 v)

For S = H this is log p(y_t | a_t)^w, integrated over a_t. S = H + floor is positive definite where H is
not; both ends of the path are exact whatever it is. Terms of steps are weighted by `shares`, which leave
the filter as it is.

Backward, adjoints (derivatives of the log-likelihood by everything) are carried. Smoothed states are a
function of these.

Folds lie in the last axis of every array. Transitions and loadings are sparse: entries (K, 2) of rows
and columns, values (1 or T, K, L). Matrices have one entry in their first axis, or one for each step.
Covariances of states are kept as lower triangles, row by row: R = n (n + 1) / 2 numbers.

The steps of all sequences follow each other. A call does a span of each sequence: spans (N, 3) are its
first step, its end, and its place in what is kept of steps. If `onward`, the state after the span has a
place there, too.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.lanes import LANES, load, same, store
from fitonce.core.native import compiled
from fitonce.engines.kalman_steps import (
    add,
    apply,
    by_precision,
    by_rows,
    by_transition,
    clear,
    copy,
    cover,
    dot,
    find_channels,
    find_errors,
    given_all,
    half,
    increase,
    invert,
    move_on,
    multiply,
    observe,
    ref,
    sandwich,
    through_loading,
    update,
)

UNDETERMINED = 1e-10  # information about a diffuse direction, relative to all that there could be


@compiled
def filtered(  # type: ignore[no-untyped-def]
    y, seen, weights, shares, floor, spans, onward,
    loads, loading, offset, noise, moves, moving, known, drift, shakes, shaking, mean, spread,
    means, spreads, crosses, errors, precisions, pivots, held_pivots, products,
):  # fmt: skip
    """One pass forward over all sequences.

    Args:
        y, seen: (T, C), and which of them are observed.
        weights, shares: (T, L) see above.
        floor: (C,) of S.
        spans, onward: see above. S: places.
        loads, loading: Z.  offset: d (1 or T, C, L).  noise: H (1 or T, C, C, L).
        moves, moving: T.  known: P to T P T', or P_bar to T' P_bar T, as `apply` reads it; or empty.
        drift: c (1 or T, n, L).  shakes, shaking: W.
        mean, spread: of first states, A (1 or N, n, M, L) and P (1 or N, R, L).
        means, spreads: out, (S, n, M, L) and (S or 2, R, L), of a_t given y_<t; two where only the last
            ones are wanted.
        crosses, errors, precisions: out, Z P (S, C, n, L), V (S, C, M, L) and G^-1 (S, C, C, L) of the
            channels that are observed.
        pivots, held_pivots: out, (T, C, L) of G and of S; ones where nothing is observed.
        products: out, (N, M, M, L) sums of shares times w V' G^-1 V.
    """
    size, columns, width = mean.shape[1], mean.shape[2], y.shape[1]
    state, square, wide = size * columns * LANES, spread.shape[1] * LANES, columns * LANES
    table, block, error = width * width * LANES, width * LANES, width * columns * LANES
    gains, places = np.empty((width, size, LANES)), len(spreads)
    total, held = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    spare = np.empty((width, width, LANES))
    pulls = np.empty((width, columns, LANES))
    af, pf = np.empty((size, columns, LANES)), np.empty((spread.shape[1], LANES))
    row = np.empty((size, LANES))
    channels, position = np.empty(width, np.int64), np.empty(width, np.int64)
    firsts, order = np.empty(size + 1, np.int64), np.empty(len(moves), np.int64)
    by_rows(moves, 0, firsts, order)
    for n in range(len(spans)):
        begin, end, at = spans[n]
        own = n if len(mean) > 1 else 0
        copy(ref(means), at * state, ref(mean), own * state, size * columns)
        copy(ref(spreads), at % places * square, ref(spread), own * square, spread.shape[1])
        own = n * columns * wide
        clear(ref(products), own, columns * columns)
        for t in range(begin, end):
            a, p = ref(means) + 8 * at * state, ref(spreads) + 8 * (at % places) * square
            cross = ref(crosses) + 8 * at * width * size * LANES
            weight, share = load(ref(weights), t * LANES), load(ref(shares), t * LANES)
            count = find_channels(seen[t], channels, position)
            for i in range(count, width):
                store(ref(pivots), t * block + i * LANES, same(1.0))
                store(ref(held_pivots), t * block + i * LANES, same(1.0))
            if count > 0:
                here = ref(loading) + 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
                shift = ref(offset) + 8 * (t * block if len(offset) > 1 else 0)
                noisy = ref(noise) + 8 * (t * table if len(noise) > 1 else 0)
                error_at, precision = ref(errors) + 8 * at * error, ref(precisions) + 8 * at * table
                find_errors(
                    count, channels, position, loads, here, y[t], shift, size, columns, a, error_at
                )
                cover(count, position, loads, here, size, p, cross)
                observe(
                    count, channels, position, loads, here, noisy, weight, floor, width, size, cross,
                    ref(total), ref(held), ref(spare),
                )  # fmt: skip
                invert(count, width, ref(held), precision, ref(held_pivots) + 8 * t * block)
                invert(count, width, ref(spare), precision, ref(pivots) + 8 * t * block)
                multiply(count, width, precision, cross, size, ref(gains))
                multiply(count, width, precision, error_at, columns, ref(pulls))
                for k in range(count):
                    for i in range(columns):
                        factor = share * weight * load(error_at, k * wide + i * LANES)
                        add(ref(products), own + i * wide, factor, ref(pulls), k * wide, columns)
            if onward or t + 1 < end:
                update(
                    count, weight, cross, ref(gains), ref(pulls), size, columns, a, p, ref(af), ref(pf)
                )
                move_on(
                    moves, firsts, order, known,
                    ref(moving) + 8 * (t * len(moves) * LANES if len(moving) > 1 else 0),
                    ref(drift) + 8 * (t * size * LANES if len(drift) > 1 else 0),
                    shakes, ref(shaking) + 8 * (t * len(shakes) * LANES if len(shaking) > 1 else 0),
                    size, columns, ref(af), ref(pf), ref(row), a + 8 * state,
                    ref(spreads) + 8 * ((at + 1) % places) * square,
                )  # fmt: skip
            at += 1


@compiled
def adjoint(  # type: ignore[no-untyped-def]
    y, seen, weights, shares, floor, spans, onward, coefficients,
    loads, loading, offset, noise, moves, moving, known, drift, shakes, shaking,
    means, spreads, crosses, errors, precisions, tables, centres, inverses, learned,
    by_loading, by_offset, by_noise, by_moving, by_drift, by_shaking, by_mean, by_spread,
    by_weights, by_shares, by_y, own_precisions, wanted, expected, expected_spreads, whole,
):  # fmt: skip
    """One pass backward: derivatives of the sum of coefficients (N, L) times log p of sequences.

    Args:
        means .. precisions: of `filtered`; other arguments as there. All spreads must have been kept if
            transitions or loadings are learned, or expectations are wanted.
        tables: (N, M, M, L) -2 times derivatives by `products`.
        centres, inverses: (N, M, L), (N, M, M, L): the coefficients of the columns given all data, 1 and
            their mean, and their covariance, zero in its first row and column.
        learned: (2,) bools: whether by_loading, by_moving are wanted.
        by_loading .. by_shaking: out, zero before, like the arrays themselves.
        by_mean, by_spread: by A (N, n, M, L) and P (N, R, L) of first states: out, and, if `onward`, by
            the states after the spans: in. Other entries than diagonal ones are half of the derivative.
        by_weights, by_shares: out, (T, L), without what logarithms of determinants and of 2 pi add.
        by_y: out, (T, C, L) of the channels that are observed, first in order.
        own_precisions: out, (T, C, C, L) or (0, C, C, L): of the channels of a step given all other
            steps, at weight 1; the mean error given those is its inverse times -by_y.
        wanted: (T,) places of a step in the next two, or -1.
        expected, expected_spreads: out, (m, C, L) and (m, C, C, L): of Z a_t given all data; or
        whole: (m, n, L) and (m, n, n, L), of a_t itself.
    """
    size, columns, width, triangle = means.shape[1], means.shape[2], y.shape[1], spreads.shape[1]
    state, square, wide, line = (
        size * columns * LANES,
        triangle * LANES,
        columns * LANES,
        size * LANES,
    )
    table_size, block, error = width * width * LANES, width * LANES, width * columns * LANES
    gains, places = np.empty((width, size, LANES)), len(spreads)
    by_cross = np.empty((width, size, LANES))
    total, held = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    by_total, spare = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    pulls, by_errors = np.empty((width, columns, LANES)), np.empty((width, columns, LANES))
    mixed, direct = np.empty((width, columns, LANES)), np.empty((width, columns, LANES))
    ignored = np.empty((width, LANES))
    af, a_bar = np.empty((size, columns, LANES)), np.empty((size, columns, LANES))
    af_bar, pf = np.empty((size, columns, LANES)), np.empty((triangle, LANES))
    p_bar, pf_bar = np.empty((triangle, LANES)), np.empty((triangle, LANES))
    row, by_weight = np.empty((size, LANES)), np.empty((1, LANES))
    firsts, order = np.empty(size + 1, np.int64), np.empty(len(moves), np.int64)
    by_rows(moves, 1, firsts, order)
    rows = size if whole else width
    chosen = np.empty((rows, size, LANES))
    loaded, inner = np.empty((rows, size, LANES)), np.empty((rows, size, LANES))
    channels, position = np.empty(width, np.int64), np.empty(width, np.int64)
    for n in range(len(spans)):
        begin, end, at = spans[n]
        coefficient = load(ref(coefficients), n * LANES)
        table = ref(tables) + 8 * n * columns * wide
        centre, inverse = ref(centres) + 8 * n * wide, ref(inverses) + 8 * n * columns * wide
        if onward:
            copy(ref(a_bar), 0, ref(by_mean), n * state, size * columns)
            copy(ref(p_bar), 0, ref(by_spread), n * square, triangle)
        else:
            clear(ref(a_bar), 0, size * columns)
            clear(ref(p_bar), 0, triangle)
        at += end - begin
        for t in range(end - 1, begin - 1, -1):
            at -= 1
            a, p = ref(means) + 8 * at * state, ref(spreads) + 8 * (at % places) * square
            cross = ref(crosses) + 8 * at * width * size * LANES
            weight, share = load(ref(weights), t * LANES), load(ref(shares), t * LANES)
            count = find_channels(seen[t], channels, position)
            here = ref(loading) + 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
            noisy = ref(noise) + 8 * (t * table_size if len(noise) > 1 else 0)
            error_at, precision = ref(errors) + 8 * at * error, ref(precisions) + 8 * at * table_size
            if count > 0:
                observe(
                    count, channels, position, loads, here, noisy, weight, floor, width, size, cross,
                    ref(total), ref(held), ref(spare),
                )  # fmt: skip
                multiply(count, width, precision, cross, size, ref(gains))
                multiply(count, width, precision, error_at, columns, ref(pulls))
            if onward or t + 1 < end:
                place = 8 * (t * len(shakes) * LANES if len(shaking) > 1 else 0)
                for k in range(len(shakes)):
                    found = load(ref(p_bar), half(shakes[k, 0], shakes[k, 1]))
                    increase(ref(by_shaking) + place, k * LANES, found)
                place = 8 * (t * line if len(drift) > 1 else 0)
                for i in range(size):
                    increase(ref(by_drift) + place, i * LANES, load(ref(a_bar), i * wide))
                place = 8 * (t * len(moves) * LANES if len(moving) > 1 else 0)
                moved = ref(moving) + place
                if learned[1]:
                    update(
                        count, weight, cross, ref(gains), ref(pulls), size, columns,
                        a, p, ref(af), ref(pf),
                    )  # fmt: skip
                    by_transition(
                        moves, moved, size, columns, ref(af), ref(pf), ref(a_bar), ref(p_bar), ref(row),
                        ref(by_moving) + place,
                    )  # fmt: skip
                clear(ref(af_bar), 0, size * columns)
                for k in range(len(moves)):
                    to, value = moves[k, 0] * wide, load(moved, k * LANES)
                    add(ref(af_bar), moves[k, 1] * wide, value, ref(a_bar), to, columns)
                if len(known[0]):
                    apply(known[0], known[1], known[2], ref(p_bar), ref(pf_bar))
                else:
                    sandwich(moves, 1, firsts, order, moved, size, ref(p_bar), ref(row), ref(pf_bar))
                copy(ref(a_bar), 0, ref(af_bar), 0, size * columns)
                copy(ref(p_bar), 0, ref(pf_bar), 0, triangle)
            else:
                clear(ref(af_bar), 0, size * columns)
                clear(ref(pf_bar), 0, triangle)
            slope = same(0.0)
            shared = same(0.0)
            if count > 0:
                by_precision(
                    count, width, size, columns, weight, share, coefficient, cross, ref(gains),
                    ref(pulls), precision, table, ref(af_bar), ref(pf_bar), ref(by_errors),
                    ref(by_cross), ref(by_total), ref(mixed), ref(direct), ref(by_weight),
                )  # fmt: skip
                slope = load(ref(by_weight), 0)
                invert(count, width, ref(held), ref(spare), ref(ignored))
                for i in range(count):
                    shared = shared + dot(error_at, i * wide, ref(mixed), i * wide, columns)
                    for j in range(count):
                        entry = (i * width + j) * LANES
                        apart = load(ref(total), entry) - load(ref(held), entry)
                        slope = slope + load(ref(by_total), entry) * apart
                slope = slope - same(0.5) * share * shared
                shared = same(-0.5) * weight * shared
                place = 8 * (t * table_size if len(noise) > 1 else 0)
                other = same(1.0) - weight
                for i in range(count):
                    store(ref(by_y), t * block + i * LANES, load(ref(by_errors), i * wide))
                    for j in range(count):
                        entry = (i * width + j) * LANES
                        by_held = load(ref(by_total), entry)
                        inverse_of = same(0.5) * coefficient * share * load(ref(spare), entry)
                        store(ref(by_total), entry, weight * by_held)
                        increase(
                            ref(by_noise) + place,
                            (channels[i] * width + channels[j]) * LANES,
                            by_held + other * inverse_of,
                        )
                        if len(own_precisions) > 0:
                            both = load(ref(by_errors), i * wide) * load(ref(by_errors), j * wide)
                            both = both - same(2.0) * load(ref(by_total), entry)
                            store(ref(own_precisions), t * table_size + entry, both)
                place = 8 * (t * block if len(offset) > 1 else 0)
                for i in range(count):
                    less = same(-1.0) * load(ref(by_errors), i * wide)
                    increase(ref(by_offset) + place, channels[i] * LANES, less)
                place = 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
                through_loading(
                    count, position, loads, here, learned[0], width, size, columns, cross, a, p,
                    ref(by_cross), ref(by_errors), ref(by_total), ref(a_bar), ref(p_bar),
                    ref(by_loading) + place,
                )  # fmt: skip
            store(ref(by_weights), t * LANES, slope)
            store(ref(by_shares), t * LANES, shared)
            if wanted[t] >= 0:
                clear(ref(chosen), 0, rows * size)
                if whole:
                    for i in range(size):
                        store(ref(chosen), (i * size + i) * LANES, same(1.0))
                else:
                    for k in range(len(loads)):
                        increase(
                            ref(chosen), (loads[k, 0] * size + loads[k, 1]) * LANES,
                            load(here, k * LANES),
                        )  # fmt: skip
                given_all(
                    rows, size, columns, ref(chosen), a, p, ref(a_bar), ref(p_bar), centre, inverse,
                    ref(loaded), ref(inner), ref(expected) + 8 * wanted[t] * rows * LANES,
                    ref(expected_spreads) + 8 * wanted[t] * rows * rows * LANES,
                )  # fmt: skip
        copy(ref(by_mean), n * state, ref(a_bar), 0, size * columns)
        copy(ref(by_spread), n * square, ref(p_bar), 0, triangle)
