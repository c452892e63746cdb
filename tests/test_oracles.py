"""H, J and the folds' parameters against reference numbers computed without this project.

`hmm_T300_*`: two states, unit precision, prior -0.5 |mu|^2 + 0.1 sum log A + 0.1 sum log pi. See the
README beside the files. Their order of parameters is transition, initial, then mean by channel.
"""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from conftest import shared
from fitonce import schemes
from solving import solve

TOLERANCE = 1e-8
MODEL = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=1.0)


class Reference:
    """A stored file, in our order of parameters."""

    def __init__(self, name):
        self.stored = np.load(shared("oracles", name))
        theta = self.stored["theta_one"]
        mean = theta[3:].reshape(2, 2).T
        params = {
            "initial": softmax([theta[2], 0.0]),
            "transition": np.array([softmax([theta[0], 0.0]), softmax([theta[1], 0.0])]),
            "mean": mean,
        }
        self.fit = fo.fit_at(MODEL, self.stored["X"][0], params)
        order = ["transition[0,0]", "transition[1,0]", "initial[0]"]
        order += ["mean[0,0]", "mean[1,0]", "mean[0,1]", "mean[1,1]"]
        self.order = [self.fit.names.index(name) for name in order]

    def __getitem__(self, key):
        return self.stored[key]

    def theirs(self, array):
        """Rows of ours in their order."""
        return np.asarray(array)[self.order]


def softmax(x):
    x = np.exp(np.asarray(x, float))
    return x / x.sum()


def agree(ours, theirs):
    scale = np.abs(theirs).max()
    error = np.abs(ours - theirs).max() / scale
    assert error < TOLERANCE, f"relative difference {error:.1e}"


@pytest.fixture(scope="module")
def tight():
    return Reference("hmm_T300_tight.npz")


@pytest.fixture(scope="module")
def init():
    return Reference("hmm_T300_init.npz")


def test_hessian(tight):
    agree(tight.fit.H[np.ix_(tight.order, tight.order)], tight["H"])


def test_hessian_of_the_papers_code(init):
    agree(init.fit.H[np.ix_(init.order, init.order)], init["H"])


def test_j_of_the_papers_code(init):
    agree(init.theirs(fo.curvature(init.fit, "A").J), init["J"])


@pytest.mark.parametrize(
    ("scheme", "key"),
    [
        (schemes.A(), "J_A"),
        (schemes.B(), "J_B_unnormalised"),
        (schemes.B(normalised=True), "J_B_normalised"),
    ],
)
def test_j(tight, scheme, key):
    agree(tight.theirs(fo.curvature(tight.fit, scheme).J), tight[key])


def test_j_with_one_weight_per_transition(tight):
    ours = tight.theirs(fo.curvature(tight.fit, schemes.B(per_transition=True)).J)
    nodes, edges = ours[:, :300], ours[:, 300:]
    agree(edges, tight["J_B_edge"])
    # Their node part is the emission alone; the first of ours holds the initial distribution too,
    # and by the chain rule all parts add up to the path with products of weights.
    agree(nodes[:, 1:], tight["J_B_node"][:, 1:])
    around = np.pad(edges, ((0, 0), (1, 0))) + np.pad(edges, ((0, 0), (0, 1)))
    agree(nodes + around, tight["J_B_unnormalised"])


@pytest.mark.parametrize("which", ["iid", "contig"])
@pytest.mark.parametrize(
    ("method", "scheme", "key"),
    [
        ("ij", schemes.A(), "params_acv_A"),
        ("ij", schemes.B(), "params_acv_B"),
        ("ij", schemes.B(per_transition=True), "params_acv_Bedge"),
        ("onestep", schemes.A(), "params_H1grad_A"),
        ("onestep", schemes.B(), "params_H1grad_B"),
        ("newton", schemes.A(), "params_NS_A"),
        ("newton", schemes.B(), "params_NS_B"),
        ("exact", schemes.A(), "params_cv_A"),
        ("exact", schemes.B(), "params_cv_B"),
    ],
)
def test_parameters_of_folds(tight, which, method, scheme, key):
    folds = fo.folds.sites([tight[f"o_{which}"]], 300)
    found = solve(method, fo.curvature(tight.fit, scheme), folds.weights)
    agree(tight.theirs(found.thetas[0]), tight[f"{key}_{which}"])


@pytest.mark.parametrize("which", ["iid", "contig"])
def test_ij_of_the_papers_code(init, which):
    folds = fo.folds.sites([init[f"o_{which}"]], 300)
    curve = fo.curvature(init.fit, "A")
    found = solve("ij", curve, folds.weights).thetas[0]
    # Their fit stopped at a gradient of 1e-6 and their expansion takes it for zero; ours does not.
    found = found + curve.solve(curve.gradient)
    agree(init.theirs(found), init[f"params_acv_{which}"])


def test_fit_finds_the_reference_optimum(tight):
    found = fo.fit(MODEL, tight["X"][0], init=tight.fit.params)
    assert found.ok
    agree(tight.theirs(found.theta), tight["theta_one"])
