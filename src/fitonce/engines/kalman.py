"""Kalman filter and its adjoint as plain loops over steps, for sixteen folds side by side.

    y_t = Z_t a_t + d_t + e_t,  e_t ~ N(0, H_t)        a_t+1 = T_t a_t + c_t + n_t,  n_t ~ N(0, W_t)

The first state has the mean A_1[:, 0], the covariance P_1 and diffuse directions A_1[:, 1:]: their
coefficients have a flat prior. The filter carries them along as further columns of its mean A (n, M); that
they are integrated over at the end of a sequence is exact (de Jong's form of the diffuse likelihood).

An observation of weight w has the information of w observations: its variance is F + (1 / w - 1) S, with
F = Z P Z' + H. With G = w F + (1 - w) S nothing is divided by w, which may be zero:

    log p_t = -1/2 (w C log 2 pi + log |G| - (1 - w) log |S| + w v' G^-1 v)

For S = H this is log p(y_t | a_t)^w, integrated over a_t. S = H + floor is positive definite where H is
not; both ends of the path are exact whatever it is. Terms of steps are weighted by `shares`, which leave
the filter as it is.

Backward, adjoints (derivatives of the log-likelihood by everything) are carried, of which smoothed states
are a function.

Folds lie in the last axis of every array. Transitions and loadings are sparse: entries (K, 2) of rows and
columns, values (1 or T, K, L). Matrices have one entry in their first axis, or one for each step. The steps
of all sequences follow each other.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.lanes import LANES, load, same, store
from fitonce.core.native import compiled, inlined


@inlined
def _at(array):  # type: ignore[no-untyped-def]
    """The address of the first number."""
    return array.ctypes.data


@inlined
def _clear(into, place, count):  # type: ignore[no-untyped-def]
    for j in range(count):
        store(into, place + j * LANES, same(0.0))


@inlined
def _copy(into, place, source, there, count):  # type: ignore[no-untyped-def]
    for j in range(count):
        store(into, place + j * LANES, load(source, there + j * LANES))


@inlined
def _add(into, place, factor, source, there, count):  # type: ignore[no-untyped-def]
    """A row plus a factor times another row."""
    for j in range(count):
        here = place + j * LANES
        store(into, here, load(into, here) + factor * load(source, there + j * LANES))


@inlined
def _dot(left, here, right, there, count):  # type: ignore[no-untyped-def]
    total = same(0.0)
    for j in range(count):
        total = total + load(left, here + j * LANES) * load(right, there + j * LANES)
    return total


@inlined
def _increase(into, place, value):  # type: ignore[no-untyped-def]
    store(into, place, load(into, place) + value)


@compiled
def _symmetrise(matrix, size):  # type: ignore[no-untyped-def]
    """Rounding would grow where it differs between the triangles."""
    for i in range(size):
        for j in range(i):
            upper, lower = (j * size + i) * LANES, (i * size + j) * LANES
            both = same(0.5) * (load(matrix, upper) + load(matrix, lower))
            store(matrix, upper, both)
            store(matrix, lower, both)


@compiled
def _invert(count, width, matrix, out, pivots):  # type: ignore[no-untyped-def]
    """Into out: the inverse of a symmetric positive definite matrix, of which the first rows and columns
    count; into pivots (width,): those of its elimination, whose product is the determinant."""
    row = width * LANES
    for i in range(count):
        _copy(out, i * row, matrix, i * row, count)
    for k in range(count):
        pivot = load(out, k * row + k * LANES)
        store(pivots, k * LANES, pivot)
        inverse = same(1.0) / pivot
        store(out, k * row + k * LANES, same(1.0))
        for j in range(count):
            store(out, k * row + j * LANES, load(out, k * row + j * LANES) * inverse)
        for i in range(count):
            if i != k:
                factor = same(-1.0) * load(out, i * row + k * LANES)
                store(out, i * row + k * LANES, same(0.0))
                _add(out, i * row, factor, out, k * row, count)


@compiled
def _observed(  # type: ignore[no-untyped-def]
    count, channels, position, loads, loading, noise, weight, floor, width, size, p,
    cross, total, held, precision,
):  # fmt: skip
    """Into cross Z P, total F, held S (both of the observed channels) and precision G^-1."""
    row, line = width * LANES, size * LANES
    for i in range(count):
        _clear(cross, i * line, size)
        for j in range(count):
            own = load(noise, (channels[i] * width + channels[j]) * LANES)
            store(total, i * row + j * LANES, own)
            if i == j:
                own = own + same(floor[channels[i]])
            store(held, i * row + j * LANES, own)
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            _add(cross, i * line, load(loading, k * LANES), p, loads[k, 1] * line, size)
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            value = load(loading, k * LANES)
            for j in range(count):
                _increase(
                    total, j * row + i * LANES, value * load(cross, j * line + loads[k, 1] * LANES)
                )
    other = same(1.0) - weight
    for i in range(count):
        for j in range(count):
            at = i * row + j * LANES
            store(precision, at, weight * load(total, at) + other * load(held, at))


@compiled
def _errors(count, channels, position, loads, loading, y, offset, size, columns, a, out):  # type: ignore[no-untyped-def]
    """Into out (count, M): y - d - Z A."""
    wide = columns * LANES
    for i in range(count):
        _clear(out, i * wide, columns)
        store(out, i * wide, same(y[channels[i]]) - load(offset, channels[i] * LANES))
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            value = same(-1.0) * load(loading, k * LANES)
            _add(out, i * wide, value, a, loads[k, 1] * wide, columns)


@compiled
def _product(count, width, matrix, rows, length, out):  # type: ignore[no-untyped-def]
    """Into out (count, length): matrix (count, count) times rows."""
    line = length * LANES
    for i in range(count):
        _clear(out, i * line, length)
        for k in range(count):
            _add(out, i * line, load(matrix, (i * width + k) * LANES), rows, k * line, length)


@compiled
def _update(count, weight, cross, gains, pulls, size, columns, a, p, af, pf):  # type: ignore[no-untyped-def]
    """Into af, pf: mean and covariance of the state given its own step, too.

    gains are G^-1 Z P, pulls G^-1 V.
    """
    line, wide = size * LANES, columns * LANES
    for i in range(size):
        _copy(af, i * wide, a, i * wide, columns)
        _copy(pf, i * line, p, i * line, size)
        for k in range(count):
            factor = weight * load(cross, k * line + i * LANES)
            _add(af, i * wide, factor, pulls, k * wide, columns)
            _add(pf, i * line, same(-1.0) * factor, gains, k * line, size)


@compiled
def _onward(moves, moving, drift, shakes, shaking, size, columns, af, pf, work, after, late):  # type: ignore[no-untyped-def]
    """Into after, late: T A + c and T P T' + W."""
    line, wide = size * LANES, columns * LANES
    _clear(after, 0, size * columns)
    _clear(work, 0, size * size)
    _clear(late, 0, size * size)
    for i in range(size):
        store(after, i * wide, load(drift, i * LANES))
    for k in range(len(moves)):
        value = load(moving, k * LANES)
        _add(after, moves[k, 0] * wide, value, af, moves[k, 1] * wide, columns)
        _add(work, moves[k, 0] * line, value, pf, moves[k, 1] * line, size)
    for k in range(len(moves)):
        value = load(moving, k * LANES)
        for i in range(size):
            moved = value * load(work, i * line + moves[k, 1] * LANES)
            _increase(late, moves[k, 0] * line + i * LANES, moved)
    for k in range(len(shakes)):
        _increase(late, (shakes[k, 0] * size + shakes[k, 1]) * LANES, load(shaking, k * LANES))
    _symmetrise(late, size)


@compiled
def _channels(seen, channels, position):  # type: ignore[no-untyped-def]
    """Into channels: those that are observed; into position: where they are there, or -1."""
    count = 0
    for i in range(len(seen)):
        position[i] = -1
        if seen[i]:
            channels[count] = i
            position[i] = count
            count += 1
    return count


@compiled
def filtered(  # type: ignore[no-untyped-def]
    y, seen, weights, shares, floor, starts,
    loads, loading, offset, noise, moves, moving, drift, shakes, shaking, mean, spread,
    means, spreads, errors, precisions, pivots, held_pivots, products,
):  # fmt: skip
    """One pass forward over all sequences.

    Args:
        y, seen: (T, C), and which of them are observed.
        weights, shares: (T, L) see above.
        floor: (C,) of S.
        starts: (N + 1,).
        loads, loading: Z.  offset: d (1 or T, C, L).  noise: H (1 or T, C, C, L).
        moves, moving: T.  drift: c (1 or T, n, L).  shakes, shaking: W.
        mean, spread: A_1 (n, M, L) and P_1 (n, n, L).
        means, spreads: out, (T, n, M, L) and (T, n, n, L), of a_t given y_<t.
        errors, precisions: out, V (T, C, M, L) and G^-1 (T, C, C, L), of the channels that are observed.
        pivots, held_pivots: out, (T, C, L) of G and of S; ones where nothing is observed.
        products: out, (N, M, M, L) sums of shares times w V' G^-1 V.
    """
    size, columns, width = mean.shape[0], mean.shape[1], y.shape[1]
    state, square, wide = size * columns * LANES, size * size * LANES, columns * LANES
    table, block, error = width * width * LANES, width * LANES, width * columns * LANES
    cross, gains = np.empty((width, size, LANES)), np.empty((width, size, LANES))
    total, held = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    spare = np.empty((width, width, LANES))
    pulls = np.empty((width, columns, LANES))
    af, pf = np.empty((size, columns, LANES)), np.empty((size, size, LANES))
    work = np.empty((size, size, LANES))
    channels, position = np.empty(width, np.int64), np.empty(width, np.int64)
    for n in range(len(starts) - 1):
        _copy(_at(means), starts[n] * state, _at(mean), 0, size * columns)
        _copy(_at(spreads), starts[n] * square, _at(spread), 0, size * size)
        own = n * columns * wide
        _clear(_at(products), own, columns * columns)
        for t in range(starts[n], starts[n + 1]):
            a, p = _at(means) + 8 * t * state, _at(spreads) + 8 * t * square
            weight, share = load(_at(weights), t * LANES), load(_at(shares), t * LANES)
            count = _channels(seen[t], channels, position)
            for i in range(count, width):
                store(_at(pivots), t * block + i * LANES, same(1.0))
                store(_at(held_pivots), t * block + i * LANES, same(1.0))
            if count > 0:
                here = _at(loading) + 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
                shift = _at(offset) + 8 * (t * block if len(offset) > 1 else 0)
                noisy = _at(noise) + 8 * (t * table if len(noise) > 1 else 0)
                error_at, precision = _at(errors) + 8 * t * error, _at(precisions) + 8 * t * table
                _errors(
                    count, channels, position, loads, here, y[t], shift, size, columns, a, error_at
                )
                _observed(
                    count, channels, position, loads, here, noisy, weight, floor, width, size, p,
                    _at(cross), _at(total), _at(held), _at(spare),
                )  # fmt: skip
                _invert(count, width, _at(held), precision, _at(held_pivots) + 8 * t * block)
                _invert(count, width, _at(spare), precision, _at(pivots) + 8 * t * block)
                _product(count, width, precision, _at(cross), size, _at(gains))
                _product(count, width, precision, error_at, columns, _at(pulls))
                for k in range(count):
                    for i in range(columns):
                        factor = share * weight * load(error_at, k * wide + i * LANES)
                        _add(_at(products), own + i * wide, factor, _at(pulls), k * wide, columns)
            if t + 1 < starts[n + 1]:
                _update(
                    count, weight, _at(cross), _at(gains), _at(pulls), size, columns,
                    a, p, _at(af), _at(pf),
                )  # fmt: skip
                _onward(
                    moves, _at(moving) + 8 * (t * len(moves) * LANES if len(moving) > 1 else 0),
                    _at(drift) + 8 * (t * size * LANES if len(drift) > 1 else 0),
                    shakes, _at(shaking) + 8 * (t * len(shakes) * LANES if len(shaking) > 1 else 0),
                    size, columns, _at(af), _at(pf), _at(work), a + 8 * state, p + 8 * square,
                )  # fmt: skip


@compiled
def _through_transition(  # type: ignore[no-untyped-def]
    moves, moving, learned, size, columns, af, pf, a_bar, p_bar, work, af_bar, pf_bar, by_moving,
):  # fmt: skip
    """Into af_bar, pf_bar: T' A_bar and T' P_bar T; adds to by_moving where it is `learned`."""
    line, wide = size * LANES, columns * LANES
    _clear(af_bar, 0, size * columns)
    _clear(pf_bar, 0, size * size)
    _clear(work, 0, size * size)
    for k in range(len(moves)):
        to, source, value = moves[k, 0], moves[k, 1], load(moving, k * LANES)
        _add(af_bar, source * wide, value, a_bar, to * wide, columns)
        _add(work, source * line, value, p_bar, to * line, size)
        if learned:
            found = _dot(a_bar, to * wide, af, source * wide, columns)
            _increase(by_moving, k * LANES, found)
    for k in range(len(moves)):
        to, source, value = moves[k, 0], moves[k, 1], load(moving, k * LANES)
        found = same(0.0)
        for i in range(size):
            moved = load(work, i * line + to * LANES)
            _increase(pf_bar, i * line + source * LANES, value * moved)
            if learned:
                found = found + moved * load(pf, i * line + source * LANES)
        if learned:
            _increase(by_moving, k * LANES, same(2.0) * found)
    _symmetrise(pf_bar, size)


@compiled
def _by_precision(  # type: ignore[no-untyped-def]
    count, width, size, columns, weight, share, coefficient, cross, gains, pulls, precision, table,
    af_bar, pf_bar, by_errors, by_cross, by_total, mixed, direct,
):  # fmt: skip
    """The derivatives by V, Z P (so far without that through F) and G of one step.

    direct: G^-1 times the derivative by G^-1 V; mixed: G^-1 V times the table of coefficients.
    """
    line, wide, row = size * LANES, columns * LANES, width * LANES
    for i in range(count):
        _clear(by_errors, i * wide, columns)  # so far the derivative by G^-1 V
        _clear(mixed, i * wide, columns)
        _clear(by_cross, i * line, size)
        for j in range(size):
            factor = weight * load(cross, i * line + j * LANES)
            _add(by_errors, i * wide, factor, af_bar, j * wide, columns)
            _add(by_cross, i * line, load(gains, i * line + j * LANES), pf_bar, j * line, size)
        for k in range(columns):
            _add(mixed, i * wide, load(pulls, i * wide + k * LANES), table, k * wide, columns)
    _product(count, width, precision, by_errors, columns, direct)
    half = same(0.5)
    for i in range(count):
        for j in range(count):
            at = i * row + j * LANES
            found = same(-0.5) * coefficient * share * load(precision, at)
            found = found + half * weight * share * _dot(pulls, i * wide, mixed, j * wide, columns)
            found = found - half * _dot(direct, i * wide, pulls, j * wide, columns)
            found = found - half * _dot(direct, j * wide, pulls, i * wide, columns)
            found = found + weight * _dot(by_cross, i * line, gains, j * line, size)
            store(by_total, at, found)
    for i in range(count):
        _copy(by_errors, i * wide, direct, i * wide, columns)
        _add(by_errors, i * wide, same(-1.0) * weight * share, mixed, i * wide, columns)
        for j in range(size):
            at = i * line + j * LANES
            pulled = _dot(pulls, i * wide, af_bar, j * wide, columns)
            store(by_cross, at, weight * (pulled - same(2.0) * load(by_cross, at)))


@compiled
def _through_loading(  # type: ignore[no-untyped-def]
    count, position, loads, loading, learned, width, size, columns, cross, a, p,
    by_cross, by_errors, by_variance, a_bar, p_bar, by_loading,
):  # fmt: skip
    """Adds to a_bar, p_bar, and to by_loading where it is `learned`."""
    line, wide, row = size * LANES, columns * LANES, width * LANES
    for k in range(len(loads)):
        i, at = position[loads[k, 0]], loads[k, 1] * LANES
        if i >= 0:
            found = same(0.0)
            for j in range(count):
                slope = load(by_variance, j * row + i * LANES)
                found = found + slope * load(cross, j * line + at)
                _increase(by_cross, j * line + at, slope * load(loading, k * LANES))
            if learned:
                _increase(by_loading, k * LANES, found)
    for k in range(len(loads)):
        i, at = position[loads[k, 0]], loads[k, 1]
        if i >= 0:
            value = load(loading, k * LANES)
            if learned:
                found = _dot(by_cross, i * line, p, at * line, size)
                found = found - _dot(by_errors, i * wide, a, at * wide, columns)
                _increase(by_loading, k * LANES, found)
            half = same(0.5) * value
            _add(p_bar, at * line, half, by_cross, i * line, size)
            for j in range(size):
                _increase(p_bar, j * line + at * LANES, half * load(by_cross, i * line + j * LANES))
            _add(a_bar, at * wide, same(-1.0) * value, by_errors, i * wide, columns)


@compiled
def _given_all(  # type: ignore[no-untyped-def]
    count, size, columns, rows, a, p, a_bar, p_bar, centre, inverse, loaded, inner, state, spread,
):  # fmt: skip
    """Into state (count,), spread (count, count): of `rows` (count, n) times a state, given all data, from
    bars at coefficient 1.

    With r = A_bar[:, 0]: the mean is A b + P r, the covariance P + P (2 P_bar - r r') P and, for diffuse
    directions D of covariance V, D V D' + D E' P + P E D' with E = A_bar_D - r b_D'.
    """
    line, wide = size * LANES, columns * LANES
    for i in range(count):
        _clear(loaded, i * line, size)
        found = same(0.0)
        pulled = same(0.0)
        for k in range(size):
            factor = load(rows, i * line + k * LANES)
            _add(loaded, i * line, factor, p, k * line, size)
            found = found + factor * _dot(a, k * wide, centre, 0, columns)
        for k in range(size):
            pulled = pulled + load(loaded, i * line + k * LANES) * load(a_bar, k * wide)
        store(state, i * LANES, found + pulled)
        for k in range(size):
            twice = same(2.0) * _dot(loaded, i * line, p_bar, k * line, size)
            whole = load(rows, i * line + k * LANES) + twice - pulled * load(a_bar, k * wide)
            store(inner, i * line + k * LANES, whole)
    for i in range(count):
        for j in range(count):
            store(spread, (i * count + j) * LANES, _dot(inner, i * line, loaded, j * line, size))
    for m in range(1, columns):
        for i in range(count):
            here = same(0.0)
            for k in range(size):
                here = here + load(rows, i * line + k * LANES) * load(a, k * wide + m * LANES)
            for j in range(count):
                along = same(0.0)
                for k in range(size):
                    e = load(a_bar, k * wide + m * LANES)
                    e = e - load(a_bar, k * wide) * load(centre, m * LANES)
                    along = along + e * load(loaded, j * line + k * LANES)
                    for other in range(1, columns):
                        shared = load(inverse, m * wide + other * LANES)
                        shared = shared * load(a, k * wide + other * LANES)
                        along = along + same(0.5) * shared * load(rows, j * line + k * LANES)
                _increase(spread, (i * count + j) * LANES, here * along)
                _increase(spread, (j * count + i) * LANES, here * along)


@compiled
def adjoint(  # type: ignore[no-untyped-def]
    y, seen, weights, shares, floor, starts, coefficients,
    loads, loading, offset, noise, moves, moving, drift, shakes, shaking,
    means, spreads, errors, precisions, centres, inverses, learned,
    by_loading, by_offset, by_noise, by_moving, by_drift, by_shaking, by_mean, by_spread,
    by_weights, by_shares, by_y, own_precisions, wanted, expected, expected_spreads, whole,
):  # fmt: skip
    """One pass backward: derivatives of the sum of coefficients (N, L) times log p of sequences.

    Args:
        means .. precisions: of `filtered`; other arguments as there.
        centres, inverses: (N, M, L), (N, M, M, L): the coefficients of the columns given all data, 1 and
            their mean, and their covariance, zero in its first row and column.
        learned: (2,) bools: whether by_loading, by_moving are wanted.
        by_loading .. by_shaking: out, zero before, like the arrays themselves.
        by_mean, by_spread: out, zero before, by A_1 (n, M, L) and P_1 (n, n, L).
        by_weights, by_shares: out, (T, L), without what logarithms of determinants and of 2 pi add.
        by_y: out, (T, C, L) of the channels that are observed, first in order.
        own_precisions: out, (T, C, C, L) or (0, C, C, L): of the channels of a step given all other
            steps, at weight 1; the mean error given those is its inverse times -by_y.
        wanted: (T,) places of a step in the next two, or -1.
        expected, expected_spreads: out, (m, C, L) and (m, C, C, L): of Z a_t given all data; or
        whole: (m, n, L) and (m, n, n, L), of a_t itself.
    """
    size, columns, width = means.shape[1], means.shape[2], y.shape[1]
    state, square, wide, line = size * columns * LANES, size * size * LANES, columns * LANES, size * LANES
    table_size, block, error = width * width * LANES, width * LANES, width * columns * LANES
    cross, gains = np.empty((width, size, LANES)), np.empty((width, size, LANES))
    by_cross = np.empty((width, size, LANES))
    total, held = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    by_total, spare = np.empty((width, width, LANES)), np.empty((width, width, LANES))
    pulls, by_errors = np.empty((width, columns, LANES)), np.empty((width, columns, LANES))
    mixed, direct = np.empty((width, columns, LANES)), np.empty((width, columns, LANES))
    ignored = np.empty((width, LANES))
    af, a_bar = np.empty((size, columns, LANES)), np.empty((size, columns, LANES))
    af_bar, pf = np.empty((size, columns, LANES)), np.empty((size, size, LANES))
    p_bar, pf_bar = np.empty((size, size, LANES)), np.empty((size, size, LANES))
    work, table = np.empty((size, size, LANES)), np.empty((columns, columns, LANES))
    rows = size if whole else width
    chosen = np.empty((rows, size, LANES))
    loaded, inner = np.empty((rows, size, LANES)), np.empty((rows, size, LANES))
    channels, position = np.empty(width, np.int64), np.empty(width, np.int64)
    for n in range(len(starts) - 1):
        coefficient = load(_at(coefficients), n * LANES)
        centre, inverse = _at(centres) + 8 * n * wide, _at(inverses) + 8 * n * columns * wide
        for i in range(columns):
            for j in range(columns):
                both = load(centre, i * LANES) * load(centre, j * LANES)
                both = both + load(inverse, i * wide + j * LANES)
                store(_at(table), i * wide + j * LANES, coefficient * both)
        _clear(_at(a_bar), 0, size * columns)
        _clear(_at(p_bar), 0, size * size)
        for t in range(starts[n + 1] - 1, starts[n] - 1, -1):
            a, p = _at(means) + 8 * t * state, _at(spreads) + 8 * t * square
            weight, share = load(_at(weights), t * LANES), load(_at(shares), t * LANES)
            count = _channels(seen[t], channels, position)
            here = _at(loading) + 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
            noisy = _at(noise) + 8 * (t * table_size if len(noise) > 1 else 0)
            error_at, precision = _at(errors) + 8 * t * error, _at(precisions) + 8 * t * table_size
            if count > 0:
                _observed(
                    count, channels, position, loads, here, noisy, weight, floor, width, size, p,
                    _at(cross), _at(total), _at(held), _at(spare),
                )  # fmt: skip
                _product(count, width, precision, _at(cross), size, _at(gains))
                _product(count, width, precision, error_at, columns, _at(pulls))
            if t + 1 < starts[n + 1]:
                if learned[1]:
                    _update(
                        count, weight, _at(cross), _at(gains), _at(pulls), size, columns,
                        a, p, _at(af), _at(pf),
                    )  # fmt: skip
                place = 8 * (t * len(shakes) * LANES if len(shaking) > 1 else 0)
                for k in range(len(shakes)):
                    found = load(_at(p_bar), (shakes[k, 0] * size + shakes[k, 1]) * LANES)
                    _increase(_at(by_shaking) + place, k * LANES, found)
                place = 8 * (t * line if len(drift) > 1 else 0)
                for i in range(size):
                    _increase(_at(by_drift) + place, i * LANES, load(_at(a_bar), i * wide))
                place = 8 * (t * len(moves) * LANES if len(moving) > 1 else 0)
                _through_transition(
                    moves, _at(moving) + place, learned[1], size, columns, _at(af), _at(pf),
                    _at(a_bar), _at(p_bar), _at(work), _at(af_bar), _at(pf_bar), _at(by_moving) + place,
                )  # fmt: skip
                _copy(_at(a_bar), 0, _at(af_bar), 0, size * columns)
                _copy(_at(p_bar), 0, _at(pf_bar), 0, size * size)
            else:
                _clear(_at(af_bar), 0, size * columns)
                _clear(_at(pf_bar), 0, size * size)
            slope = same(0.0)
            shared = same(0.0)
            if count > 0:
                _by_precision(
                    count, width, size, columns, weight, share, coefficient, _at(cross), _at(gains),
                    _at(pulls), precision, _at(table), _at(af_bar), _at(pf_bar),
                    _at(by_errors), _at(by_cross), _at(by_total), _at(mixed), _at(direct),
                )  # fmt: skip
                _invert(count, width, _at(held), _at(spare), _at(ignored))
                for i in range(count):
                    shared = shared + _dot(error_at, i * wide, _at(mixed), i * wide, columns)
                    # By w through A_f and P_f: by_cross is w (U A_bar' - 2 G^-1 Z P P_bar).
                    for j in range(size):
                        pulled = _dot(_at(pulls), i * wide, _at(af_bar), j * wide, columns)
                        pulled = pulled - _dot(_at(gains), i * line, _at(pf_bar), j * line, size)
                        slope = slope + load(_at(cross), i * line + j * LANES) * pulled
                    for j in range(count):
                        at = (i * width + j) * LANES
                        apart = load(_at(total), at) - load(_at(held), at)
                        slope = slope + load(_at(by_total), at) * apart
                slope = slope - same(0.5) * share * shared
                shared = same(-0.5) * weight * shared
                place = 8 * (t * table_size if len(noise) > 1 else 0)
                other = same(1.0) - weight
                for i in range(count):
                    store(_at(by_y), t * block + i * LANES, load(_at(by_errors), i * wide))
                    for j in range(count):
                        at = (i * width + j) * LANES
                        by_held = load(_at(by_total), at)
                        inverse_of = same(0.5) * coefficient * share * load(_at(spare), at)
                        store(_at(by_total), at, weight * by_held)
                        _increase(
                            _at(by_noise) + place,
                            (channels[i] * width + channels[j]) * LANES,
                            by_held + other * inverse_of,
                        )
                        if len(own_precisions) > 0:
                            both = load(_at(by_errors), i * wide) * load(_at(by_errors), j * wide)
                            both = both - same(2.0) * load(_at(by_total), at)
                            store(_at(own_precisions), t * table_size + at, both)
                place = 8 * (t * block if len(offset) > 1 else 0)
                for i in range(count):
                    less = same(-1.0) * load(_at(by_errors), i * wide)
                    _increase(_at(by_offset) + place, channels[i] * LANES, less)
                place = 8 * (t * len(loads) * LANES if len(loading) > 1 else 0)
                _through_loading(
                    count, position, loads, here, learned[0], width, size, columns, _at(cross), a, p,
                    _at(by_cross), _at(by_errors), _at(by_total), _at(a_bar), _at(p_bar),
                    _at(by_loading) + place,
                )  # fmt: skip
            store(_at(by_weights), t * LANES, slope)
            store(_at(by_shares), t * LANES, shared)
            if wanted[t] >= 0:
                _clear(_at(chosen), 0, rows * size)
                if whole:
                    for i in range(size):
                        store(_at(chosen), (i * size + i) * LANES, same(1.0))
                else:
                    for k in range(len(loads)):
                        _increase(
                            _at(chosen), (loads[k, 0] * size + loads[k, 1]) * LANES,
                            load(here, k * LANES),
                        )  # fmt: skip
                _given_all(
                    rows, size, columns, _at(chosen), a, p, _at(a_bar), _at(p_bar), centre, inverse,
                    _at(loaded), _at(inner), _at(expected) + 8 * wanted[t] * rows * LANES,
                    _at(expected_spreads) + 8 * wanted[t] * rows * rows * LANES,
                )  # fmt: skip
        _add(_at(by_mean), 0, same(1.0), _at(a_bar), 0, size * columns)
        _add(_at(by_spread), 0, same(1.0), _at(p_bar), 0, size * size)
