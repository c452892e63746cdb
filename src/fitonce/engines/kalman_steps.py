"""What a Kalman filter and its adjoint do at one step, for sixteen folds side by side: see `kalman`.

Arrays are given by addresses, folds lie in their last axis. Of symmetric matrices of states the lower
triangle is kept, row by row.
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


@inlined
def half(i, j):  # type: ignore[no-untyped-def]
    """The place of an entry of a symmetric matrix, of which the lower triangle is kept, row by row."""
    if i < j:
        i, j = j, i
    return (i * (i + 1) // 2 + j) * LANES


@inlined
def dot_row(matrix, j, vector, there, size):  # type: ignore[no-untyped-def]
    """The product of row j of a symmetric matrix and a row of numbers."""
    total = same(0.0)
    place = j * (j + 1) // 2
    for k in range(j):
        total = total + load(vector, there + k * LANES) * load(matrix, (place + k) * LANES)
    place += j
    for k in range(j, size):
        total = total + load(vector, there + k * LANES) * load(matrix, place * LANES)
        place += k + 1
    return total


@inlined
def add_row(into, there, factor, matrix, j, size):  # type: ignore[no-untyped-def]
    """A row of numbers plus a factor times row j of a symmetric matrix."""
    place = j * (j + 1) // 2
    add(into, there, factor, matrix, place * LANES, j)
    place += j
    for k in range(j, size):
        increase(into, there + k * LANES, factor * load(matrix, place * LANES))
        place += k + 1


@compiled
def apply(firsts, sources, factors, matrix, out):  # type: ignore[no-untyped-def]
    """Into out: a known linear map of a matrix, whose entry r is the sum of factors times entries."""
    for r in range(len(firsts) - 1):
        total = same(0.0)
        for q in range(firsts[r], firsts[r + 1]):
            total = total + same(factors[q]) * load(matrix, sources[q] * LANES)
        store(out, r * LANES, total)


@compiled
def by_rows(entries, axis, firsts, order):  # type: ignore[no-untyped-def]
    """Into order (K,): places of entries (K, 2) sorted by one of their columns; into firsts (n + 1,):
    where those of each row begin."""
    firsts[:] = 0
    for k in range(len(entries)):
        firsts[entries[k, axis] + 1] += 1
    for i in range(len(firsts) - 1):
        firsts[i + 1] += firsts[i]
    at = firsts.copy()
    for k in range(len(entries)):
        row = entries[k, axis]
        order[at[row]] = k
        at[row] += 1


@compiled
def sandwich(entries, axis, firsts, order, values, size, matrix, row, out):  # type: ignore[no-untyped-def]
    """Into out: B S B' of a symmetric S.

    B has `values` at `entries`, its rows are numbered by their column `axis`; order and firsts are of
    `by_rows`. row: room for (n,).
    """
    other = 1 - axis
    for i in range(size):
        for j in range(size):
            total = same(0.0)
            for q in range(firsts[i], firsts[i + 1]):
                k = order[q]
                total = total + load(values, k * LANES) * load(matrix, half(entries[k, other], j))
            store(row, j * LANES, total)
        for j in range(i + 1):
            total = same(0.0)
            for q in range(firsts[j], firsts[j + 1]):
                k = order[q]
                total = total + load(values, k * LANES) * load(row, entries[k, other] * LANES)
            store(out, half(i, j), total)


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
def cover(count, position, loads, loading, size, p, cross):  # type: ignore[no-untyped-def]
    """Into cross: Z P of the observed channels."""
    clear(cross, 0, count * size)
    for k in range(len(loads)):
        i = position[loads[k, 0]]
        if i >= 0:
            add_row(cross, i * size * LANES, load(loading, k * LANES), p, loads[k, 1], size)


@compiled
def observe(  # type: ignore[no-untyped-def]
    count, channels, position, loads, loading, noise, weight, floor, width, size, cross,
    total, held, mixed,
):  # fmt: skip
    """Into total F, held S and mixed G, of the observed channels, from cross Z P."""
    row, line = width * LANES, size * LANES
    for i in range(count):
        for j in range(count):
            own = load(noise, (channels[i] * width + channels[j]) * LANES)
            store(total, i * row + j * LANES, own)
            if i == j:
                own = own + same(floor[channels[i]])
            store(held, i * row + j * LANES, own)
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
            store(mixed, at, weight * load(total, at) + other * load(held, at))


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
    copy(af, 0, a, 0, size * columns)
    if count == 0:
        copy(pf, 0, p, 0, size * (size + 1) // 2)
    for k in range(count):
        before = p if k == 0 else pf
        for i in range(size):
            factor = weight * load(cross, k * line + i * LANES)
            add(af, i * wide, factor, pulls, k * wide, columns)
            for j in range(i + 1):
                at = half(i, j)
                store(pf, at, load(before, at) - factor * load(gains, k * line + j * LANES))


@compiled
def move_on(  # type: ignore[no-untyped-def]
    moves, firsts, order, known, moving, drift, shakes, shaking, size, columns, af, pf, row,
    after, late,
):  # fmt: skip
    """Into after, late: T A + c and T P T' + W."""
    wide = columns * LANES
    clear(after, 0, size * columns)
    for i in range(size):
        store(after, i * wide, load(drift, i * LANES))
    for k in range(len(moves)):
        add(after, moves[k, 0] * wide, load(moving, k * LANES), af, moves[k, 1] * wide, columns)
    if len(known[0]):
        apply(known[0], known[1], known[2], pf, late)
    else:
        sandwich(moves, 0, firsts, order, moving, size, pf, row, late)
    for k in range(len(shakes)):
        if shakes[k, 0] >= shakes[k, 1]:
            increase(late, half(shakes[k, 0], shakes[k, 1]), load(shaking, k * LANES))


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
def by_transition(moves, moving, size, columns, af, pf, a_bar, p_bar, row, by_moving):  # type: ignore[no-untyped-def]
    """Adds to by_moving the derivatives by entries of T: of A_bar A_f' + 2 P_bar T P_f."""
    wide = columns * LANES
    for i in range(size):
        clear(row, 0, size)  # of P_bar T
        for k in range(len(moves)):
            at = moves[k, 1] * LANES
            increase(row, at, load(moving, k * LANES) * load(p_bar, half(i, moves[k, 0])))
        for k in range(len(moves)):
            if moves[k, 0] == i:
                found = same(2.0) * dot_row(pf, moves[k, 1], row, 0, size)
                found = found + dot(a_bar, i * wide, af, moves[k, 1] * wide, columns)
                increase(by_moving, k * LANES, found)


@compiled
def by_precision(  # type: ignore[no-untyped-def]
    count, width, size, columns, weight, share, coefficient, cross, gains, pulls, precision, table,
    af_bar, pf_bar, by_errors, by_cross, by_total, mixed, direct, slope,
):  # fmt: skip
    """The derivatives by V, Z P (so far without that through F) and G of one step.

    direct: G^-1 times the derivative by G^-1 V; mixed: G^-1 V times the table of coefficients; slope:
    the derivative by w through A_f and P_f.
    """
    line, wide, row = size * LANES, columns * LANES, width * LANES
    for i in range(count):
        clear(by_errors, i * wide, columns)  # so far the derivative by G^-1 V
        clear(mixed, i * wide, columns)
        for j in range(size):
            factor = weight * load(cross, i * line + j * LANES)
            add(by_errors, i * wide, factor, af_bar, j * wide, columns)
            store(by_cross, i * line + j * LANES, dot_row(pf_bar, j, gains, i * line, size))
        for k in range(columns):
            add(mixed, i * wide, load(pulls, i * wide + k * LANES), table, k * wide, columns)
    multiply(count, width, precision, by_errors, columns, direct)
    for i in range(count):
        for j in range(count):
            at = i * row + j * LANES
            found = share * (weight * dot(pulls, i * wide, mixed, j * wide, columns))
            found = found - coefficient * share * load(precision, at)
            found = found - dot(direct, i * wide, pulls, j * wide, columns)
            found = found - dot(direct, j * wide, pulls, i * wide, columns)
            found = same(0.5) * found
            found = found + weight * dot(by_cross, i * line, gains, j * line, size)
            store(by_total, at, found)
    total = same(0.0)
    for i in range(count):
        copy(by_errors, i * wide, direct, i * wide, columns)
        add(by_errors, i * wide, same(-1.0) * weight * share, mixed, i * wide, columns)
        for j in range(size):
            at = i * line + j * LANES
            own = load(by_cross, at)
            pulled = dot(pulls, i * wide, af_bar, j * wide, columns) - own
            total = total + load(cross, at) * pulled
            store(by_cross, at, weight * (pulled - own))
    store(slope, 0, total)


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
                found = dot_row(p, at, by_cross, i * line, size)
                found = found - dot(by_errors, i * wide, a, at * wide, columns)
                increase(by_loading, k * LANES, found)
            for j in range(size):
                slope = same(1.0 if j == at else 0.5) * value * load(by_cross, i * line + j * LANES)
                increase(p_bar, half(at, j), slope)
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
            add_row(loaded, i * line, factor, p, k, size)
            found = found + factor * dot(a, k * wide, centre, 0, columns)
        for k in range(size):
            pulled = pulled + load(loaded, i * line + k * LANES) * load(a_bar, k * wide)
        store(state, i * LANES, found + pulled)
        for k in range(size):
            twice = same(2.0) * dot_row(p_bar, k, loaded, i * line, size)
            whole = load(rows, i * line + k * LANES) + twice
            whole = whole - pulled * load(a_bar, k * wide)
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
