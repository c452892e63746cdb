"""What is handed on: a wheel and an sdist that install and run, a citation, workflows, a site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import fitonce as fo

ROOT = Path(__file__).parents[1]


def run(command, folder, **more):
    """Run without what this process imports from; the text that was printed."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=clean | more, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("build", reason="needs build")
    pytest.importorskip("hatchling", reason="needs hatchling")
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], ROOT)
    return {path.suffix: path for path in out.iterdir()}


@pytest.mark.slow
def test_what_is_built_has_all_it_needs_and_nothing_else(built):
    with zipfile.ZipFile(built[".whl"]) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    kept = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert inside == {name for name in kept if "__pycache__" not in name and ".egg-info" not in name}
    with tarfile.open(built[".gz"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "examples/chain.ipynb", "pyproject.toml"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".whl", ".gz"])
def test_what_is_built_installs_and_passes_the_demo(built, kind, tmp_path):
    venv = tmp_path / "venv"
    run([sys.executable, "-m", "venv", venv], tmp_path)
    python = venv / "bin" / "python"
    (site,) = venv.glob("lib/python*/site-packages")
    # What it depends on, from this environment, behind what is installed there: no network is needed.
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--quiet"]
    run([python, "-m", "pip", "install", *offline, built[kind]], tmp_path)
    where = run([python, "-c", "import fitonce; print(fitonce.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(venv)
    shown = run([venv / "bin" / "fitonce", "demo"], tmp_path, FITONCE_DATA=str(tmp_path))
    assert "1,000 folds" in shown
    assert "estimate" in shown


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    found = dict(re.findall(r"^([\w-]+): (.+)$", text, re.M))
    assert found["cff-version"] == "1.2.0"
    assert found["version"] == fo.__version__
    assert found["license"] == "Apache-2.0"
    assert {"title", "message", "type"} <= found.keys()
    assert "authors:" in text
    assert "Approximate Cross-Validation for Structured Models" in text
    page = (ROOT / "docs/citing.md").read_text()
    assert f"version = {{{fo.__version__}}}" in page
    assert found["title"].strip('"') in page


def test_workflows_call_what_there_is():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    flow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    jobs = flow["jobs"]
    assert set(jobs) == {"tests", "docs", "package"}
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = set(re.findall(r"make ([a-z-]+) PYTHON=", "\n".join(commands)))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert called == {"lint", "test", "test-late", "docs", "package"}
    assert called <= targets
    supported = set(re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text()))
    assert set(jobs["tests"]["strategy"]["matrix"]["python"]) == supported


def test_workers_are_given_whole_groups(request):
    """Otherwise each worker makes all fits that tests share."""
    grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@test_package") == grouped
