"""Programs in which LAPACK has one matrix at a time, on a CPU with a jaxlib before 0.11.

There a call for a batch of matrices splits the batch, hands the parts to the threads on which programs
run, and waits for them on one of these threads. As many such calls at once as there are threads, of one
program or of several, wait for parts that no thread is left to take: for ever. A call for one matrix
hands nothing on and waits for nothing. So a whole program, with its derivatives and all that a user
wrote, is read equation by equation, and each call for a batch becomes a loop over the batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

CALLS = frozenset({
    "cholesky", "triangular_solve", "lu", "qr", "geqrf", "geqp3", "householder_product", "ormqr", "eigh",
    "eig", "svd", "schur", "hessenberg", "tridiagonal", "tridiagonal_solve",
})  # fmt: skip


@functools.cache
def waits() -> bool:
    """Whether LAPACK's calls for batches can wait for each other here; JAX is loaded."""
    import jax

    version = tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2])
    return jax.default_backend() == "cpu" and version < (0, 11)


def safe(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is compiled as a whole, such that it cannot wait for itself; JAX is loaded."""
    return one_matrix_at_a_time(function) if waits() else function


def is_traced(arguments: Any) -> bool:
    """Whether they are those of a function that JAX reads, not values."""
    import jax

    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(arguments))


def one_matrix_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is compiled, with loops in place of calls for batches."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        import jax

        whole = {str(number): each for number, each in enumerate(args)} | kwargs
        arrays = {name: each for name, each in whole.items() if is_traced(each)}

        def of_arrays(arrays: Any) -> Any:
            every = whole | arrays
            return function(*(every[str(i)] for i in range(len(args))), **{n: every[n] for n in kwargs})

        closed, shapes = jax.make_jaxpr(of_arrays, return_shape=True)(arrays)
        found = _evaluated(closed.jaxpr, closed.consts, jax.tree_util.tree_leaves(arrays))
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shapes), found)

    return call


def _is_batch(equation: Any) -> bool:
    return equation.primitive.name in CALLS and math.prod(_batch(equation.invars)) > 1


def _batch(operands: Sequence[Any]) -> tuple[int, ...]:
    """The leading axes that all operands have: one of them is a matrix, others can be vectors."""
    shapes = [getattr(one, "aval", one).shape for one in operands]
    return tuple(shapes[0][: max(map(len, shapes)) - 2])


def _mentions(jaxpr: Any) -> bool:
    """Whether a call for a batch is in it, or in what it calls."""
    import jax.extend.core as core

    return any(
        _is_batch(equation) or any(map(_mentions, core.jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )


def _evaluated(jaxpr: Any, constants: Any, arguments: Any) -> list[Any]:
    """The results of a jaxpr, equation by equation."""
    import jax.extend.core as core

    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, core.Literal) else known[variable]

    for equation in jaxpr.eqns:
        given, params = [value(one) for one in equation.invars], equation.params
        if _is_batch(equation):
            found = _looped(equation, given)
        else:
            if any(map(_mentions, core.jaxprs_in_params(params))):
                params = {name: _replaced(each) for name, each in params.items()}
            found = _bound(equation.primitive, given, params)
        known.update(zip(equation.outvars, found, strict=True))
    return [value(one) for one in jaxpr.outvars]


def _bound(primitive: Any, given: Any, params: dict[str, Any]) -> Any:
    bound = primitive.get_bind_params(params)
    functions, options = bound if isinstance(bound, tuple) else ((), bound)  # by version of JAX
    found = primitive.bind(*functions, *given, **options)
    return found if primitive.multiple_results else [found]


def _looped(equation: Any, given: Any) -> list[Any]:
    """A call, matrix by matrix."""
    from jax import lax

    batch = _batch(given)

    def one(_: None, operands: Any) -> tuple[None, Any]:
        return None, _bound(equation.primitive, operands, equation.params)

    flat = [operand.reshape(-1, *operand.shape[len(batch) :]) for operand in given]
    return [each.reshape(*batch, *each.shape[1:]) for each in lax.scan(one, None, flat)[1]]


def _replaced(param: Any) -> Any:
    """A parameter of an equation, with loops in the jaxprs in it: of a loop, a branch, a call."""
    import jax
    import jax.extend.core as core

    def one(inner: Any) -> Any:
        if not isinstance(inner, kinds) or not _mentions(getattr(inner, "jaxpr", inner)):
            return inner
        closed = inner if isinstance(inner, core.ClosedJaxpr) else core.ClosedJaxpr(inner, ())
        shapes = [
            jax.ShapeDtypeStruct(one.aval.shape, one.aval.dtype, weak_type=one.aval.weak_type)
            for one in closed.jaxpr.invars
        ]
        evaluate = functools.partial(_evaluated, closed.jaxpr, closed.consts)
        made = jax.make_jaxpr(lambda *arrays: evaluate(arrays))(*shapes)
        return made if isinstance(inner, core.ClosedJaxpr) else made.jaxpr

    kinds = (core.ClosedJaxpr, core.Jaxpr)
    return jax.tree_util.tree_map(one, param, is_leaf=lambda node: isinstance(node, kinds))
