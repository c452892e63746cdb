"""What is imported when: chains of built-in emissions need no JAX, --help needs nothing of ours."""

import subprocess
import sys

import numba
import numpy as np
import pytest
import typer

from fitonce.cli.app import COMMANDS
from fitonce.cli.commands import every
from fitonce.core import deferred, native

_VERBS = """
import sys
import numpy as np
import fitonce as fo
rng = np.random.default_rng(0)
level = np.repeat([2.0, 9.0, 2.0, 9.0], 15)
models = {{
    "poisson": (fo.models.PoissonHMM(2), rng.poisson(level)),
    "gaussian": (fo.models.GaussianHMM(2, covariance="full"), rng.normal(level[:, None], 1.0, (60, 2))),
    "autoregression": (fo.models.ARHMM(2, 1), rng.normal(level[:, None], 1.0, (60, 2))),
    "network": (fo.models.NeuralARHMM(1, 1, hidden=2), rng.normal(level[:, None], 1.0, (60, 1))),
    "categorical": (fo.models.CategoricalHMM(2, 2), (rng.random(60) < level / 10).astype(int)),
}}
model, data = models["{name}"]
fit = fo.fit(model, data, restarts=1)
folds = fo.folds.blocks(data, 10, 5)
for method in ("none", "ij", "onestep", "exact", "auto"):
    fo.cross_validate(fit, folds, method=method)
fo.loo(fit)
fo.influence(fit)
unneeded = ("jax", "networkx", "matplotlib", "pooch", "scipy.optimize")
print(repr(fit)[:0], *(name for name in unneeded if name in sys.modules))
"""


def _said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["poisson", "gaussian", "categorical", "autoregression", "network"])
def test_built_in_emissions_need_no_jax(name):
    assert _said(_VERBS.format(name=name)) == ""


def test_help_imports_nothing_large():
    code = (
        "import sys\nfrom fitonce.cli import app\n"
        "try: app(['--help'], standalone_mode=False)\nexcept SystemExit: pass\n"
        "print('loaded:', *(n for n in ('jax', 'numpy', 'pandas', 'scipy', 'numba', 'matplotlib', "
        "'networkx') if n in sys.modules))"
    )
    assert _said(code).endswith("loaded:")


def test_help_has_the_first_sentence_of_each_command():
    found = typer.main.get_command(every).commands
    assert list(found) == list(COMMANDS)
    for name, sentence in COMMANDS.items():
        assert " ".join(found[name].help.split()).startswith(sentence), name


def test_jax_is_in_float64_where_it_is_first_needed_and_not_afterwards():
    code = (
        "from fitonce.core.deferred import float64, jnp, loaded\n"
        "with float64():\n"
        "    with float64():\n"
        "        assert not loaded()\n"
        "        inside = jnp.ones(1).dtype\n"
        "    between = jnp.ones(1).dtype\n"
        "print(inside, between, jnp.ones(1).dtype)"
    )
    assert _said(code) == "float64 float64 float32"


def test_a_deferred_module_is_the_module():
    import jax.numpy

    assert deferred.jnp.ones is jax.numpy.ones
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = deferred.jax.no_such_name


def test_loops_are_kept_in_a_folder_of_the_user_where_there_is_no_other(tmp_path, monkeypatch):
    def double(x):
        return 2.0 * x

    made = numba.njit(double)
    native._keep_in(tmp_path, made)
    assert made(3.0) == 6.0
    assert any(tmp_path.rglob("*.nbc"))

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = native._temporary.__wrapped__()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)  # others could put code there
    assert native._temporary.__wrapped__() is None


def test_a_fit_gives_back_the_threads_of_blas():
    from threadpoolctl import threadpool_info

    import fitonce as fo

    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    fo.fit(fo.models.PoissonHMM(2), np.arange(30) % 7, restarts=1)
    assert threads() == before
