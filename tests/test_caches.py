"""Machine code kept on disk: a folder that is full, damaged, read-only or shared costs only time."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from benchmarks.injections import Disk, OnDisk

from fitonce.core import compile_cache, native


def doubled(x):
    return x + x


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Makes the function compiled by a new process, with its cache in a folder."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return lambda: native.compiled(doubled)


def hits(made):
    return sum(made.stats.cache_hits.values())


def test_a_second_process_finds_it(fresh):
    assert fresh()(1.5) == 3.0
    again = fresh()
    assert again(1.5) == 3.0
    assert hits(again) == 1


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_full_disk_leaves_it_uncached(fresh, monkeypatch, tmp_path, ending, room):
    real = builtins.open

    def opened(name, mode="r", *rest, **how):
        file = real(name, mode, *rest, **how)
        return OnDisk(file, Disk(room)) if "w" in mode and f"{ending}.tmp" in str(name) else file

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", opened)
        assert fresh()(1.5) == 3.0
    assert not [path for path in tmp_path.rglob("*") if ".tmp" in path.name]
    again = fresh()
    assert again(1.5) == 3.0
    assert hits(again) == 0
    last = fresh()
    assert last(1.5) == 3.0
    assert hits(last) == 1


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("change", [lambda text: text[:7], lambda text: b"", lambda text: b"x" + text])
def test_damaged_files_are_replaced(fresh, tmp_path, ending, change):
    assert fresh()(1.5) == 3.0
    for path in tmp_path.rglob(f"*.{ending}"):
        path.write_bytes(change(path.read_bytes()))
    assert fresh()(1.5) == 3.0
    last = fresh()
    assert last(1.5) == 3.0
    assert hits(last) == 1


def test_code_for_other_arguments_under_the_same_name_is_not_run(fresh, tmp_path):
    """As two processes can leave it that store two kinds of arguments at once."""
    made = fresh()
    made(1.5)
    made(np.ones(3))
    first, second = sorted(tmp_path.rglob("*.nbc"))
    second.write_bytes(first.read_bytes())
    again = fresh()
    np.testing.assert_array_equal(again(np.ones(3)), [2.0, 2.0, 2.0])
    assert again(1.5) == 3.0


def test_a_folder_that_cannot_be_written_to(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "folder"))
    assert native.compiled(doubled)(1.5) == 3.0


def test_compiled_programs_are_kept_only_where_that_is_possible(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("FITONCE_CACHE", str(tmp_path / "file" / "folder"))
    assert compile_cache.use() is None
    monkeypatch.setenv("FITONCE_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)  # which is true of root whatever the mode
    assert compile_cache.use() is None


PROGRAM = """
import jax, jax.numpy as jnp, resource, sys
from fitonce.core import compile_cache
assert compile_cache.use() is not None
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
if sys.argv[1] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
print(float(jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.arange(9.0))))
"""


def test_a_full_or_shared_folder_of_programs_changes_no_digit(tmp_path):
    def program(how):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, how], env=os.environ | {"FITONCE_CACHE": str(tmp_path)},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    full = program("full").communicate()[0]
    first, second = program("shared"), program("shared")
    said = {full, first.communicate()[0], second.communicate()[0], program("again").communicate()[0]}
    assert len(said) == 1
    assert float(said.pop())
