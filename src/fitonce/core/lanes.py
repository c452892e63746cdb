"""Sixteen numbers that are computed side by side, for loops compiled by Numba.

Numba leaves short loops as single instructions for single numbers. Here `load(address, place)` reads
sixteen numbers in a row as one value of LLVM's vector type; `+`, `-`, `*` and `/` work on it, and
`store(address, place, value)` writes it. On any processor this becomes the widest instructions that it
has; two or more of these hide each other's delays. Arrays are given by the address of their first
number: Numba would count references to arrays in every step.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, overload, register_model

LANES = 16
intrinsic: Any = _intrinsic  # its own types are those of the Python functions that it is given
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__("Lanes")


_lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _pointer(builder: Any, address: Any, place: Any) -> Any:
    numbers = builder.inttoptr(address, ir.DoubleType().as_pointer())
    return builder.bitcast(builder.gep(numbers, [place]), _VECTOR.as_pointer())


@intrinsic
def load(typing: Any, address: Any, place: Any) -> Any:
    """Numbers of a contiguous array, from a place of the flattened array on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, *args))
        found.align = 8
        return found

    return _lanes(types.intp, types.intp), build


@intrinsic
def store(typing: Any, address: Any, place: Any, value: Any) -> Any:
    """Write numbers."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        written = builder.store(args[2], _pointer(builder, *args[:2]))
        written.align = 8
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, _lanes), build


@intrinsic
def same(typing: Any, number: Any) -> Any:
    """The same number in every lane."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        one = builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), places)

    return _lanes(types.float64), build


def _operation(name: str) -> Any:
    @intrinsic
    def of_two(typing: Any, left: Any, right: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args, flags=("contract",))  # a * b + c may round once

        return _lanes(_lanes, _lanes), build

    return of_two


def _overload(python: Any, name: str) -> None:
    operation = _operation(name)

    @overload(python)
    def choose(left, right):  # type: ignore[no-untyped-def]
        if isinstance(left, _Lanes) and isinstance(right, _Lanes):
            return lambda left, right: operation(left, right)
        return None


for _python, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.iadd, "fadd"),
    (operator.imul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _overload(_python, _name)
