"""The commands of the documents: understood by the command line, and run on small files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from tests.command_files import write_files
from typer.testing import CliRunner

from fitonce.cli import app

ROOT = Path(__file__).parents[1]


def commands(page):
    """The words of each command: lines of shell blocks, and those in a sentence that name a file."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    shell = "\n".join(block for kind, block in blocks if kind == "sh").split("\n")
    lines = [line for line in shell if line.startswith("fitonce ")]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    lines += re.findall(r"`(fitonce [a-z]+ [\w-]+\.\w+ [^`]*)`", prose)
    return [shlex.split(line, comments=True)[1:] for line in lines]


PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if commands(path.relative_to(ROOT))
)


def test_pages_with_commands_are_found():
    assert {"README.md", "docs/commands.md", "docs/graphs.md", "docs/labels.md"} <= set(PAGES)
    assert ["cv", "corpus.conll"] in [words[:2] for words in commands("README.md")]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_documents_are_understood(page):
    root = typer.main.get_command(app)
    for words in commands(page):
        with root.make_context("fitonce", list(words)) as context:
            name, command, rest = root.resolve_command(context, list(words))
            command.make_context(name, rest, parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_documents_run(page, tmp_path, monkeypatch):
    pytest.importorskip("geopandas")  # writes the shapefiles
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for words in commands(page):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output)
