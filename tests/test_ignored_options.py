"""No option of a command is ignored: each is refused by name, or makes another request.

Every command stops where its fit would begin: what would be fitted, on which folds and how, is what the
options have asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app, fit_commands, saved_commands, select_command, steps
from fitonce.cli.choices import ModelChoice, flag, model_options, named_models
from fitonce.cli.commands import every as commands
from fitonce.cli.examples import example_of

# What is written, printed or kept of a result, and how much memory may be used for it.
OF_RESULTS = {
    "report", "save", "plot", "force", "json", "quiet", "cache", "memory_limit", "table", "top",
    "suspects", "help",
}  # fmt: skip
# Other values than the default's of the options that are words, where any other word is refused.
WORDS = {
    "missing": "9.5", "first": "2024-01-22", "last": "2024-01-22", "decimal": ",", "buffer": "1",
    "method": "onestep", "scheme": "B", "loss": "joint", "folds": "points",
}  # fmt: skip
NUMBERS = {"optima": "3", "k": "4", "restarts": "2", "seed": "1"}
MORE = {"max_seconds": "9.5", "percent": "20", "level": "0.5"}


KINDS = {"optima": int, "seed": int, **{name: one.kind for name, one in model_options().items()}}
KINDS |= dict.fromkeys(("n", "k", "hops", "horizon", "restarts", "steps", "paths"), int)
KINDS |= dict.fromkeys(("percent", "max_seconds", "missing"), float)


class Stop(typer.Exit):
    """Where a command would begin to compute."""


def with_gaps(file):
    """Write the table with the days of the week only, if it has days, and numbers with decimals; returns
    one of what is modelled."""
    table = pd.read_csv(file)
    if "day" in table:
        table = table[pd.to_datetime(table["day"]).dt.day_of_week < 5]
    numbers = table.select_dtypes("number")
    table.assign(**numbers.astype(float)).to_csv(file, index=False)
    return str(float(numbers.iloc[0, 0]))


@functools.cache
def options_of(name):
    """Of a command, by the names of their parameters."""
    command = typer.main.get_command(commands).commands[name]
    return {one.name: one for one in command.params if one.param_type_name == "option"}


def other_value(option):
    """Words of the command line that give the option a value that is not its default."""
    name = option.name
    if option.is_flag:
        wanted = option.opts if not option.default else option.secondary_opts
        return [wanted[0]]
    at = option.opts[0]
    if name in WORDS or name in MORE:
        return [at, {**WORDS, **MORE}[name]]
    kind = KINDS.get(name, str)
    if kind is int:
        return [at, NUMBERS.get(name, str(int(option.default or 0) + 1))]
    if kind is float:
        return [at, str(2 * float(option.default or 5.0))]
    return [at, "NO_SUCH"]


def told(value):
    """All that a value is made of."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes() if value.dtype.kind != "O" else repr(value.tolist()))
    if isinstance(value, pd.DataFrame):
        return value.to_csv()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, *(told(getattr(value, f.name)) for f in dataclasses.fields(value)))
    if isinstance(value, dict):
        return tuple((key, told(item)) for key, item in value.items() if key != "stop")
    if isinstance(value, (list, tuple)):
        return tuple(told(item) for item in value)
    return repr(value)


@pytest.fixture
def request_of(monkeypatch, tmp_path):
    """What a command would compute, given its words; or its exit code and what it says."""
    monkeypatch.chdir(tmp_path)
    reached = []

    def stop_at(*given, **how):
        reached.append(told((given, how)))
        raise Stop

    def fit(model, data, **how):
        return SimpleNamespace(model=model, data=data, how=tuple(sorted(how.items())), ok=True)

    def stop_at_fit(fit, *given, **how):
        stop_at(fit.model, fit.data, getattr(fit, "how", ()), *given, **how)

    monkeypatch.setattr(steps, "fit", fit)
    monkeypatch.setattr(fit_commands, "validated", stop_at_fit)
    monkeypatch.setattr(fit_commands, "loo", stop_at_fit)
    monkeypatch.setattr(fit_commands, "influence", stop_at_fit)
    monkeypatch.setattr(saved_commands, "fitted", lambda request, *given, **how: stop_at(
        *given, request.restarts, request.seed, request.optima, **how))  # fmt: skip
    monkeypatch.setattr(select_command, "select", stop_at)

    def asked(*words):
        reached.clear()
        done = CliRunner().invoke(app, [str(word) for word in words])
        if reached:
            return reached[0]
        assert done.exit_code == 2, (words, done.output, done.exception)
        return done

    return asked


def require_none_ignored(request_of, command, words, only, values=None):
    """Each of `only` these options, given with another value, is refused by name or changes what is
    asked for."""
    usual, ignored, unnamed = request_of(command, *words), [], []
    for name, option in options_of(command).items():
        if name not in only or name in OF_RESULTS or flag(name) in words:
            continue
        given = other_value(option)
        given = [given[0], values[name]] if values and name in values else given
        found = request_of(command, *words, *given)
        if isinstance(found, tuple):
            ignored += [given] if found == usual else []
            continue
        said = " ".join(found.output.split())
        unnamed += [] if names(said, option) else [(given, said)]
    assert not ignored
    assert not unnamed


def names(said, option):
    """Whether a message has an option's name as a word of its own, or the name that it was given; short
    names of options without dashes are words of many messages."""
    named = [flag(option.name), *option.opts, *option.secondary_opts, "NO_SUCH"]
    named += [option.name] * (len(option.name) > 3)
    return any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", said) for one in named)


def words_of(model, folder):
    """That fit the example of a model, written to a folder; and a value of what is modelled."""
    example = example_of(model)
    example.write(folder, force=False)
    file = next(iter(example.files))
    shown = {} if file.endswith(".conll") else {"missing": with_gaps(folder / file)}
    given = [word for name, value in example.options.items() for word in (f"--{name}", value)]
    return [file, "--model", model, *given], shown


def taken_by(model):
    return {option.name for option in named_models()[model].options}


def test_options_that_a_model_does_not_take_are_refused_also_with_their_defaults():
    for model in named_models():
        for name, option in model_options().items():
            if name not in taken_by(model):
                with pytest.raises(ValueError, match=f"^{flag(name)} is for .*got --model {model}"):
                    ModelChoice(model, {name: option.default})


@pytest.mark.parametrize("model", named_models())
def test_an_option_of_cv_is_refused_by_name_or_makes_another_request(request_of, tmp_path, model):
    words, shown = words_of(model, tmp_path)
    of_others = set(model_options()) - taken_by(model)
    some = set(sorted(of_others)[::20])  # all are refused in one place
    require_none_ignored(request_of, "cv", words, options_of("cv").keys() - of_others | some, shown)


@pytest.mark.parametrize("model", named_models())
def test_an_option_of_select_is_refused_by_name_or_makes_another_request(request_of, tmp_path, model):
    words, _ = words_of(model, tmp_path)
    require_none_ignored(request_of, "select", words, taken_by(model))


@pytest.mark.parametrize("model", ["poisson-hmm", "potts-binomial", "crf", "structural"])
@pytest.mark.parametrize("command", ["fit", "loo", "influence", "select"])
def test_other_commands_ignore_no_option(request_of, tmp_path, command, model):
    words, shown = words_of(model, tmp_path)
    only = options_of(command).keys() - model_options().keys()
    require_none_ignored(request_of, command, words, only, shown)


@pytest.fixture
def saved(tmp_path):
    """The file of a fit."""
    model = fo.models.PoissonHMM(2)
    y = np.repeat([2.0, 9.0, 1.0, 8.0], 6)
    params = {"initial": [0.5, 0.5], "transition": [[0.8, 0.2], [0.2, 0.8]], "rate": [[2.0], [8.0]]}
    return fo.fit_at(model, y, params).save(tmp_path / "fit.json")


@pytest.mark.parametrize("command", ["cv", "loo", "influence"])
def test_saved_fits_ignore_no_option(request_of, saved, command):
    require_none_ignored(request_of, command, [saved], options_of(command).keys() - {"model"})


@pytest.mark.parametrize("command", ["forecast", "sample", "decode"])
def test_what_is_made_of_a_saved_fit_ignores_no_option(tmp_path, command):
    """Each option makes another table or is refused by name."""
    y = np.repeat([2.0, 9.0, 1.0, 8.0], 6) + np.random.default_rng(0).normal(size=24)
    saved = fo.fit(fo.models.GaussianHMM(2), y, restarts=1, optima=0).save(tmp_path / "fit.json")
    words = [command, str(saved)]
    if command == "decode":
        table = pd.DataFrame({"when": [*range(7), 9], "who": [1, 2] * 4, "y": [1.0, 9.0] * 4})
        table.to_csv(tmp_path / "other.csv", index=False)
        words += [str(tmp_path / "other.csv"), "--columns", "y"]
    usual = CliRunner().invoke(app, [*words, "--csv"])
    assert usual.exit_code == 0, usual.output
    values = {"time": "when", "group": "who", "missing": "9"}
    for name, option in options_of(command).items():
        if name in OF_RESULTS | {"csv"} or flag(name) in words:
            continue
        given = other_value(option)
        given = [given[0], values.get(name, given[-1])]
        found = CliRunner().invoke(app, [*words, *given, "--csv"])
        said = " ".join(found.output.split())
        assert found.stdout != usual.stdout, given
        assert found.exit_code == 0 or names(said, option), (given, said)
