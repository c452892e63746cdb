"""A digest of code changes whenever something that the code depends on does, and not otherwise."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.crossval.identity import UncoveredError, digest

BASE = """
import numpy as np
import helpers

SCALE = 3.0
TABLE = {"a": np.arange(3.0)}

def inner(x):
    return x * SCALE

class Tool:
    factor = 2.0

    def __init__(self, by):
        self.by = by

    def apply(self, x):
        return self.factor * x * self.by

TOOL = Tool(5.0)

def make(shift):
    def closed(x, power=1.0, *, extra=0.5):
        def again(y):
            return y + 7.0
        return again(inner(x)) ** power + shift + extra + TOOL.apply(x) + TABLE["a"][1] + helpers.gain(x)
    return closed

wanted = make(0.25)
"""
HELPERS = "RATE = 4.0\n\ndef gain(x):\n    return RATE * x\n\nUNUSED = 1\n"
EDITS = {
    "a constant of a called function's module": ("SCALE = 3.0", "SCALE = 30.0"),
    "a called function": ("return x * SCALE", "return x + SCALE"),
    "a constant inside": ("y + 7.0", "y + 8.0"),
    "a default": ("power=1.0", "power=2.0"),
    "a keyword's default": ("extra=0.5", "extra=0.6"),
    "the closure": ("make(0.25)", "make(0.5)"),
    "a table": ("np.arange(3.0)", "np.arange(3.0) + 1"),
    "an attribute of a class": ("factor = 2.0", "factor = 2.5"),
    "a method": ("self.factor * x", "self.factor + x"),
    "the state of an object": ("Tool(5.0)", "Tool(6.0)"),
}


def made(source, helpers=HELPERS):
    modules = []
    for name, text in (("helpers", helpers), ("user_code", source)):
        module = types.ModuleType(name)
        before, sys.modules["helpers"] = sys.modules.get("helpers"), (modules or [module])[0]
        exec(compile(text, f"{name}.py", "exec"), vars(module))
        modules.append(module)
        sys.modules.pop("helpers") if before is None else sys.modules.update(helpers=before)
    return modules[-1].wanted


def test_the_same_code_has_the_same_digest():
    assert digest(made(BASE)) == digest(made(BASE))
    assert digest(made(BASE)) == digest(made("# a comment\n" + BASE.replace("\ndef", "\n\n\ndef")))


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_changes_it(what):
    old, new = EDITS[what]
    assert old in BASE
    assert digest(made(BASE)) != digest(made(BASE.replace(old, new)))


def test_code_of_own_modules_is_followed_as_far_as_it_is_used():
    usual = digest(made(BASE))
    assert digest(made(BASE, HELPERS.replace("RATE * x", "RATE + x"))) != usual
    assert digest(made(BASE, HELPERS.replace("RATE = 4.0", "RATE = 5.0"))) != usual
    assert digest(made(BASE, HELPERS.replace("UNUSED = 1", "UNUSED = 2"))) == usual


@pytest.mark.parametrize(
    "wrap",
    [jax.jit, lambda f: functools.partial(f, power=2.0), lambda f: [f], lambda f: {"key": (f,)}],
    ids=["jit", "partial", "list", "dict"],
)
def test_code_inside_other_things_counts(wrap):
    other = BASE.replace("SCALE = 3.0", "SCALE = 30.0")
    assert digest(wrap(made(BASE))) == digest(wrap(made(BASE)))
    assert digest(wrap(made(BASE))) != digest(wrap(made(other)))


def test_functions_with_their_own_derivatives_count_both():
    def pair(slope):
        f = jax.custom_jvp(lambda x: jnp.sin(x))
        f.defjvp(lambda p, t: (jnp.sin(p[0]), slope * t[0]))
        return f

    assert digest(pair(1.0)) == digest(pair(1.0))
    assert digest(pair(1.0)) != digest(pair(2.0))


def test_values_are_told_apart_by_kind_and_content():
    values = [0, 0.0, False, None, "0", b"0", (), [], {}, np.zeros(1), np.zeros(1, np.float32), {0: 0}]
    assert len({digest(value) for value in values}) == len(values)
    array = np.arange(6.0)
    assert digest(array) == digest(jnp.asarray(array, float)) or jax.config.jax_enable_x64 is False
    assert digest(array.reshape(2, 3)) != digest(array)


def test_what_refers_to_itself_has_an_end():
    loop = [1]
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_what_cannot_be_covered_is_refused():
    lock = threading.Lock()

    def uses(x):
        return x if lock.locked() else 2 * x

    with pytest.raises(UncoveredError, match="lock cannot be pickled"):
        digest(uses)


def test_another_process_finds_the_same():
    code = (
        "import fitonce as fo; from fitonce.crossval.identity import digest;"
        "print(digest([fo.models.GaussianHMM(2), fo.models.ARHMM(2).emission, {'b', 'a', 'c'},"
        " fo.schemes.B()]).hex())"
    )
    value = [fo.models.GaussianHMM(2), fo.models.ARHMM(2).emission, {"b", "a", "c"}, fo.schemes.B()]
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert found.stdout.strip() == digest(value).hex()
