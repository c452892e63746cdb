"""docs/paper.md is what the records give, with controls, figures and the paper's numbers in place."""

from pathlib import Path

import pytest
import reproduce
from reproduce import page, published, record

SOURCE = Path(__file__).parents[2] / "shared" / "paper.tex"
RECORDS = record.read_all()


def test_the_page_is_what_the_records_give():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(RECORDS), "run: python -m reproduce page"


def test_the_page_answers_every_table_and_figure_of_the_paper():
    answered = {label for labels in page.ANSWERS.values() for label in labels}
    assert answered == {label for label in published.PLACES if published.PLACES[label][0] in "FT"}
    assert set(page.ANSWERS) == set(reproduce.PAPER)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_whole(name):
    kept = RECORDS[name]
    assert name in reproduce.PAPER
    assert kept.answers == page.ANSWERS[name]
    assert kept.has_control(), "no column or row of the control"
    assert kept.differs
    assert kept.machine
    assert (record.FOLDER / f"{name}.json").stat().st_size < record.MOST_BYTES
    for table in kept.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("name", RECORDS)
def test_figures_are_there_and_small(name):
    assert RECORDS[name].figures or name == "traffic-accuracy"  # whose figure is traffic-scatter's
    for file, caption in RECORDS[name].figures:
        assert caption
        assert 0 < (record.FIGURES / file).stat().st_size < record.MOST_BYTES


def test_no_figure_is_left_over():
    named = {file for kept in RECORDS.values() for file, _ in kept.figures}
    assert {path.name for path in record.FIGURES.glob("*.png")} == named


def test_every_number_of_the_paper_is_in_its_source():
    if not SOURCE.is_file():
        pytest.skip("the paper's source is not beside this checkout")
    source = SOURCE.read_text(encoding="utf-8")
    for number in published.everything():
        assert number.tex in source, number
    for label in published.PLACES:
        assert rf"\label{{{label}}}" in source, label


@pytest.mark.parametrize("place", ["tab:dodgers", "tab:dodgers_timing"])
def test_tables_of_the_paper_have_their_numbers_in_their_own_rows(place):
    if not SOURCE.is_file():
        pytest.skip("the paper's source is not beside this checkout")
    source = SOURCE.read_text(encoding="utf-8")
    end = source.index(rf"\label{{{place}}}")
    table = source[source.rindex(r"\begin{tabular}", 0, end) : end]
    for number in published.everything():
        assert number.label != place or number.tex in table, number


def test_settings_of_records_are_numbers_of_the_paper():
    known = {(number.text, number.label) for number in published.everything()}
    for kept in RECORDS.values():
        for _, paper, label, _ in kept.settings:
            assert (paper, label) in known


def test_a_record_survives_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    made = record.Record("mocap6", "A title", [], machine="here")
    made.table("caption", ["method", "error"]).add("none", 1.5)
    made.differs.append("all of it")
    with made.waiting("the last model"):
        assert record.read(tmp_path / "mocap6.json").lines == [
            "the last model: had not ended when this was written."
        ]
    assert record.read(made.write()) == made
    assert not made.lines
    assert made.has_control()
    assert "| none | 1.5 |" in page.section(made)


def test_a_table_refuses_a_row_of_another_length():
    with pytest.raises(ValueError, match="expected 2 cells, got 1"):
        record.Table("caption", ["a", "b"]).add(1)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"expected names from traffic-accuracy, .*; got nothing-such"):
        reproduce.run(["nothing-such"])


def test_times_of_the_paper_in_seconds():
    assert published.seconds(published.TIMES["i.i.d.", 50_400, "ij"]) == 660
    assert published.seconds(published.TIMES["i.i.d.", 50_400, "exact"]) == 682.2 * 3600
