"""The code in the documents runs, and prints what they show."""

from __future__ import annotations

import pytest

from documents import ROOT, Example, differences, examples, run, updated

LATE = ["README.md"]
PAGES = [
    "docs/tutorial.md",
    "docs/own-model.md",
    "docs/models.md",
    "docs/peers.md",
    "docs/how-it-works.md",
    "docs/index.md",
    "docs/folds.md",
    "docs/methods.md",
    "docs/schemes.md",
    "docs/missing.md",
    "docs/performance.md",
    "docs/graphs.md",
    "docs/labels.md",
    "docs/motion.md",
    "CONTRIBUTING.md",
]


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(page, marks=pytest.mark.late) for page in LATE),
        *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES),
    ],
)
def test_code_in_documents_prints_what_they_show(name, tmp_path):
    found = [e for e in examples((ROOT / name).read_text()) if e.language == "python"]
    assert found
    check(found, tmp_path)


@pytest.mark.slow
def test_commands_in_the_tutorial_print_what_it_shows(tmp_path):
    found = examples((ROOT / "docs/tutorial.md").read_text())
    assert "sh" in {example.language for example in found}
    check(found, tmp_path)


def check(found, folder):
    printed = run(found, folder)
    wrong = {
        number: differences(example.shown, output)
        for number, (example, output) in enumerate(zip(found, printed, strict=True))
        if example.shown is not None
    }
    assert not {number: lines for number, lines in wrong.items() if lines}


def test_every_page_with_code_is_run():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    with_code = {str(page.relative_to(ROOT)) for page in pages if "```python" in page.read_text()}
    assert with_code == {*LATE, *PAGES}


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("loss 3.3254 +- 0.1061", "loss   3.3254 +- 0.1062"),
        ("time 5.4 s; 1,000 refits take 2.1 h", "time 61 s; 1,000 refits take 3 min"),
        ("time 5.4 s", "time 9 s, including 8.1 s compiling"),
        ("error about 3.3e-10, 3.1e-07 % of se", "error about 1.0e-11, 9.9e-08 % of se"),
        ("[0.91 0.9 ]\n\n", "[0.91 0.9 ]"),
    ],
)
def test_what_may_differ(shown, printed):
    assert not differences(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("loss 3.3254", "loss 3.3257"),
        ("100 folds", "101 folds"),
        ("81 refine, 19 newton", "81 refine, 19 refine-own"),
        ("one line", "one line\nand another"),
        ("3.8e-02", "3.9e-03"),
        ("error about 3.3e-10", "error about 3.3e-05"),
        ("good", "bad"),
        ("   loss  control", "   loss"),
    ],
)
def test_what_may_not(shown, printed):
    assert differences(shown, printed)


PAGE = (
    "Text\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n"
    "```python\nx = 5\n```\n\n```sh\nls\n```\n\n```sh\necho hello\n```\n\n```text\nhell\n```\n"
)


def test_pages_are_read_and_mended(tmp_path):
    found = examples(PAGE)
    assert [example.shown for example in found] == ["3\n", None, "hell\n"]
    assert isinstance(found[0], Example)
    printed = run(found, tmp_path)
    assert printed == ["2\n", "", "hello\n"]
    mended = PAGE.replace("\n3\n", "\n2\n").replace("\nhell\n", "\nhello\n")
    assert updated(PAGE, found, printed) == mended


def test_code_that_fails_or_warns_is_an_error(tmp_path):
    for code in ("1 / 0", "import warnings; warnings.warn('old')"):
        with pytest.raises(AssertionError, match=r"ZeroDivisionError|UserWarning: old"):
            run([Example(code, None, None)], tmp_path)
