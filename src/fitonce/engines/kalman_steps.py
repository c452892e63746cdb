"""What a Kalman filter and its adjoint do at one step, for sixteen folds side by side: see `kalman`.

Arrays are given by addresses, folds lie in their last axis.
"""

from __future__ import annotations

from fitonce.core.lanes import LANES, load, same, store
from fitonce.core.native import compiled, inlined


@inlined
def ref(array):  # type: ignore[no-untyped-def]
    """The address of the first number."""
    return array.ctypes.data


@inlined
def clear(into, place, count):  # type: ignore[no-untyped-def]
    """A row of zeros."""
    for j in range(count):
        store(into, place + j * LANES, same(0.0))


@inlined
def copy(into, place, source, there, count):  # type: ignore[no-untyped-def]
    """A row from elsewhere."""
    for j in range(count):
        store(into, place + j * LANES, load(source, there + j * LANES))


@inlined
def add(into, place, factor, source, there, count):  # type: ignore[no-untyped-def]
    """A row plus a factor times another row."""
    for j in range(count):
        here = place + j * LANES
        store(into, here, load(into, here) + factor * load(source, there + j * LANES))


@inlined
def dot(left, here, right, there, count):  # type: ignore[no-untyped-def]
    """The sum of products of two rows."""
    total = same(0.0)
    for j in range(count):
        total = total + load(left, here + j * LANES) * load(right, there + j * LANES)
    return total


@inlined
def increase(into, place, value):  # type: ignore[no-untyped-def]
    """One entry plus a value."""
    store(into, place, load(into, place) + value)


@compiled
def symmetrise(matrix, size):  # type: ignore[no-untyped-def]
    """Rounding would grow where it differs between the triangles."""
    for i in range(size):
        for j in range(i):
            upper, lower = (j * size + i) * LANES, (i * size + j) * LANES
            both = same(0.5) * (load(matrix, upper) + load(matrix, lower))
            store(matrix, upper, both)
            store(matrix, lower, both)


@compiled
def invert(count, width, matrix, out, pivots):  # type: ignore[no-untyped-def]
    """Into out: the inverse of a symmetric positive definite matrix, of which the first rows and columns
    count; into pivots (width,): those of its elimination, whose product is the determinant."""
    row = width * LANES
    for i in range(count):
        copy(out, i * row, matrix, i * row, count)
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
                add(out, i * row, factor, out, k * row, count)


@compiled
def observe(  # type: ignore[no-untyped-def]
    count, channels, position, loads, loading, noise, weight, floor, width, size, p,
    cross, total, held, precision,
):  # fmt: skip
    """Into cross Z P, total F, held S (both of the observed channels) and precision G^-1."""
    row, line = width * LANES, size * LANES
    for i in range(count):
        clear(cross, i * line, size)
        for j in range(count):
            own = load(noise, (channels[i] * width + channels[j]) * LANES)
            store(total, i * row + j * LANES, own)
            if i == j:
                own = own + same(floor[channels[i]])
            store(held, i * row + j * LANES, own)
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            add(cross, i * line, load(loading, k * LANES), p, loads[k, 1] * line, size)
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            value = load(loading, k * LANES)
            for j in range(count):
                increase(total, j * row + i * LANES, value * load(cross, j * line + loads[k, 1] * LANES))
    other = same(1.0) - weight
    for i in range(count):
        for j in range(count):
            at = i * row + j * LANES
            store(precision, at, weight * load(total, at) + other * load(held, at))


@compiled
def find_errors(count, channels, position, loads, loading, y, offset, size, columns, a, out):  # type: ignore[no-untyped-def]
    """Into out (count, M): y - d - Z A."""
    wide = columns * LANES
    for i in range(count):
        clear(out, i * wide, columns)
        store(out, i * wide, same(y[channels[i]]) - load(offset, channels[i] * LANES))
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            value = same(-1.0) * load(loading, k * LANES)
            add(out, i * wide, value, a, loads[k, 1] * wide, columns)


@compiled
def multiply(count, width, matrix, rows, length, out):  # type: ignore[no-untyped-def]
    """Into out (count, length): matrix (count, count) times rows."""
    line = length * LANES
    for i in range(count):
        clear(out, i * line, length)
        for k in range(count):
            add(out, i * line, load(matrix, (i * width + k) * LANES), rows, k * line, length)


@compiled
def update(count, weight, cross, gains, pulls, size, columns, a, p, af, pf):  # type: ignore[no-untyped-def]
    """Into af, pf: mean and covariance of the state given its own step, too.

    gains are G^-1 Z P, pulls G^-1 V.
    """
    line, wide = size * LANES, columns * LANES
    for i in range(size):
        copy(af, i * wide, a, i * wide, columns)
        copy(pf, i * line, p, i * line, size)
        for k in range(count):
            factor = weight * load(cross, k * line + i * LANES)
            add(af, i * wide, factor, pulls, k * wide, columns)
            add(pf, i * line, same(-1.0) * factor, gains, k * line, size)


@compiled
def move_on(moves, moving, drift, shakes, shaking, size, columns, af, pf, work, after, late):  # type: ignore[no-untyped-def]
    """Into after, late: T A + c and T P T' + W."""
    line, wide = size * LANES, columns * LANES
    clear(after, 0, size * columns)
    clear(work, 0, size * size)
    clear(late, 0, size * size)
    for i in range(size):
        store(after, i * wide, load(drift, i * LANES))
    for k in range(len(moves)):
        value = load(moving, k * LANES)
        add(after, moves[k, 0] * wide, value, af, moves[k, 1] * wide, columns)
        add(work, moves[k, 0] * line, value, pf, moves[k, 1] * line, size)
    for k in range(len(moves)):
        value = load(moving, k * LANES)
        for i in range(size):
            moved = value * load(work, i * line + moves[k, 1] * LANES)
            increase(late, moves[k, 0] * line + i * LANES, moved)
    for k in range(len(shakes)):
        increase(late, (shakes[k, 0] * size + shakes[k, 1]) * LANES, load(shaking, k * LANES))
    symmetrise(late, size)


@compiled
def find_channels(seen, channels, position):  # type: ignore[no-untyped-def]
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
def through_transition(  # type: ignore[no-untyped-def]
    moves, moving, learned, size, columns, af, pf, a_bar, p_bar, work, af_bar, pf_bar, by_moving,
):  # fmt: skip
    """Into af_bar, pf_bar: T' A_bar and T' P_bar T; adds to by_moving where it is `learned`."""
    line, wide = size * LANES, columns * LANES
    clear(af_bar, 0, size * columns)
    clear(pf_bar, 0, size * size)
    clear(work, 0, size * size)
    for k in range(len(moves)):
        to, source, value = moves[k, 0], moves[k, 1], load(moving, k * LANES)
        add(af_bar, source * wide, value, a_bar, to * wide, columns)
        add(work, source * line, value, p_bar, to * line, size)
        if learned:
            found = dot(a_bar, to * wide, af, source * wide, columns)
            increase(by_moving, k * LANES, found)
    for k in range(len(moves)):
        to, source, value = moves[k, 0], moves[k, 1], load(moving, k * LANES)
        found = same(0.0)
        for i in range(size):
            moved = load(work, i * line + to * LANES)
            increase(pf_bar, i * line + source * LANES, value * moved)
            if learned:
                found = found + moved * load(pf, i * line + source * LANES)
        if learned:
            increase(by_moving, k * LANES, same(2.0) * found)
    symmetrise(pf_bar, size)


@compiled
def by_precision(  # type: ignore[no-untyped-def]
    count, width, size, columns, weight, share, coefficient, cross, gains, pulls, precision, table,
    af_bar, pf_bar, by_errors, by_cross, by_total, mixed, direct,
):  # fmt: skip
    """The derivatives by V, Z P (so far without that through F) and G of one step.

    direct: G^-1 times the derivative by G^-1 V; mixed: G^-1 V times the table of coefficients.
    """
    line, wide, row = size * LANES, columns * LANES, width * LANES
    for i in range(count):
        clear(by_errors, i * wide, columns)  # so far the derivative by G^-1 V
        clear(mixed, i * wide, columns)
        clear(by_cross, i * line, size)
        for j in range(size):
            factor = weight * load(cross, i * line + j * LANES)
            add(by_errors, i * wide, factor, af_bar, j * wide, columns)
            add(by_cross, i * line, load(gains, i * line + j * LANES), pf_bar, j * line, size)
        for k in range(columns):
            add(mixed, i * wide, load(pulls, i * wide + k * LANES), table, k * wide, columns)
    multiply(count, width, precision, by_errors, columns, direct)
    half = same(0.5)
    for i in range(count):
        for j in range(count):
            at = i * row + j * LANES
            found = same(-0.5) * coefficient * share * load(precision, at)
            found = found + half * weight * share * dot(pulls, i * wide, mixed, j * wide, columns)
            found = found - half * dot(direct, i * wide, pulls, j * wide, columns)
            found = found - half * dot(direct, j * wide, pulls, i * wide, columns)
            found = found + weight * dot(by_cross, i * line, gains, j * line, size)
            store(by_total, at, found)
    for i in range(count):
        copy(by_errors, i * wide, direct, i * wide, columns)
        add(by_errors, i * wide, same(-1.0) * weight * share, mixed, i * wide, columns)
        for j in range(size):
            at = i * line + j * LANES
            pulled = dot(pulls, i * wide, af_bar, j * wide, columns)
            store(by_cross, at, weight * (pulled - same(2.0) * load(by_cross, at)))


@compiled
def through_loading(  # type: ignore[no-untyped-def]
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
                increase(by_cross, j * line + at, slope * load(loading, k * LANES))
            if learned:
                increase(by_loading, k * LANES, found)
    for k in range(len(loads)):
        i, at = position[loads[k, 0]], loads[k, 1]
        if i >= 0:
            value = load(loading, k * LANES)
            if learned:
                found = dot(by_cross, i * line, p, at * line, size)
                found = found - dot(by_errors, i * wide, a, at * wide, columns)
                increase(by_loading, k * LANES, found)
            half = same(0.5) * value
            add(p_bar, at * line, half, by_cross, i * line, size)
            for j in range(size):
                increase(p_bar, j * line + at * LANES, half * load(by_cross, i * line + j * LANES))
            add(a_bar, at * wide, same(-1.0) * value, by_errors, i * wide, columns)


@compiled
def given_all(  # type: ignore[no-untyped-def]
    count, size, columns, rows, a, p, a_bar, p_bar, centre, inverse, loaded, inner, state, spread,
):  # fmt: skip
    """Into state (count,), spread (count, count): of `rows` (count, n) times a state, given all data,
    from bars at coefficient 1.

    With r = A_bar[:, 0]: the mean is A b + P r, the covariance P + P (2 P_bar - r r') P and, for diffuse
    directions D of covariance V, D V D' + D E' P + P E D' with E = A_bar_D - r b_D'.
    """
    line, wide = size * LANES, columns * LANES
    for i in range(count):
        clear(loaded, i * line, size)
        found = same(0.0)
        pulled = same(0.0)
        for k in range(size):
            factor = load(rows, i * line + k * LANES)
            add(loaded, i * line, factor, p, k * line, size)
            found = found + factor * dot(a, k * wide, centre, 0, columns)
        for k in range(size):
            pulled = pulled + load(loaded, i * line + k * LANES) * load(a_bar, k * wide)
        store(state, i * LANES, found + pulled)
        for k in range(size):
            twice = same(2.0) * dot(loaded, i * line, p_bar, k * line, size)
            whole = load(rows, i * line + k * LANES) + twice - pulled * load(a_bar, k * wide)
            store(inner, i * line + k * LANES, whole)
    for i in range(count):
        for j in range(count):
            store(spread, (i * count + j) * LANES, dot(inner, i * line, loaded, j * line, size))
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
                increase(spread, (i * count + j) * LANES, here * along)
                increase(spread, (j * count + i) * LANES, here * along)
