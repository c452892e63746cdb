"""Shared fixtures: where the reference data is, how skips are reported, and what keeps workers alive."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Compiling is most of the time of these tests. JAX has a switch for programs that run only briefly, and
# keeps compiled programs: workers share them, and the next run finds them.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".test_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Both cores run tests, so that splitting a program to compile it on several is more work. The newer code
# generator of jaxlib 0.10 takes twice as long; later versions do not know that flag, and XLA aborts on
# flags that it does not know.
flags = [os.environ.get("XLA_FLAGS", ""), "--xla_cpu_parallel_codegen_split_count=1"]
if version("jaxlib").startswith("0.10."):
    flags.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(flags).strip()

SHARED = Path(os.environ.get("FITONCE_SHARED", ROOT.parent / "shared"))

# Every compiled program takes memory maps, of which Linux allows a process 65,530; then it is aborted.
MOST_MAPS = int(os.environ.get("FITONCE_TEST_MAPS", "45000"))


def shared(*parts: str) -> Path:
    """A file of the shared folder, or a skip that says what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} in the shared folder beside the repository")
    return path


@pytest.hookimpl(tryfirst=True)  # before groups are read
def pytest_collection_modifyitems(config, items):
    """Tests that share fits run in one worker: those of a group where one is named, or of a file. Those
    with a browser come late."""
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.late)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if config.getoption("loadgroup", False) and hasattr(item, "_id"):
            # Workers tell groups at the end of ids. pytest-xdist 3.8 writes them where pytest 9.2 no
            # longer looks (pytest-xdist#1386), and then nothing is grouped.
            group = item.get_closest_marker("xdist_group").args[0]
            item._id = type(item._id).parse(f"{item.nodeid}@{group}")


@pytest.fixture(autouse=True)
def _few_compiled_programs():
    """Forget compiled programs before there are too many of them."""
    yield
    maps = Path("/proc/self/maps")
    import jax  # not before the switches above are set

    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="module")
def browser():
    """A headless browser that keeps what pages log, or a skip that says what is missing."""
    from benchmarks.browsing import browser_on, opened

    missing = browser_on().missing
    if missing:
        pytest.skip(missing)
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def scaled_where_safe():
    """Chains of any size choose their arithmetic by the bound; small ones would all use logarithms."""
    import jax

    from fitonce.engines import chain_scan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_scan, "SMALL", 0)
        jax.clear_caches()
        yield
    jax.clear_caches()
