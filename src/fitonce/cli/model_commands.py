"""The command models: a list of them, and one described, with an example that runs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from fitonce.cli.choices import ModelChoice, flag, named_models
from fitonce.cli.display import show_written
from fitonce.cli.examples import Example, example_of, objective_on
from fitonce.cli.options import ForceOption, JsonOption
from fitonce.cli.outputs import print_json
from fitonce.objectives.family import NamedModel, Option


def models(
    name: Annotated[str | None, typer.Argument(help="A model to describe; default: list all.")] = None,
    example: Annotated[
        Path | None,
        typer.Option(help="Write the files of the model's example to this folder (made)."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """List the models that --model accepts, or describe one of them. With its options, its
    parameters and an example that runs."""
    if name is None:
        if example is not None:
            raise ValueError("--example needs the name of a model, such as fitonce models poisson-hmm")
        _list(json)
        return
    name = next((one.name for one in named_models().values() if name in one.aliases), name)
    ModelChoice(name)  # raises for a name that is not known
    shown = example_of(name)
    wrote = [] if example is None else _written(shown, example, force)
    described = _described(named_models()[name], shown)
    if json:
        print_json({**described, "wrote": wrote})
        return
    print(f"{name}: {described['title']}")
    for option in described["options"]:
        print(f"  {option['flag']:16} {option['help']} (default: {option['default']})")
    if described["covariates"]:
        print(f"  {'--covariates':16} Columns that observations depend on, separated by commas")
    print("parameters")
    for parameter, shape in described["parameters"].items():
        print(f"  {parameter:16} {' x '.join(map(str, shape)) or 'one number'}")
    print(f"example, of files that `fitonce models {name} --example FOLDER` writes")
    print(f"  {described['example']}")
    show_written(wrote)


def _list(json: bool) -> None:
    titles = {name: model.title for name, model in named_models().items()}
    if json:
        print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        print(f"{name:{width}} {title}")
    print("\n`fitonce models NAME` describes one, with its options, parameters and an example")


def _written(example: Example, folder: Path, force: bool) -> list[str]:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--example must be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    return [str(path) for path in example.write(folder, force)]


def _described(model: NamedModel, example: Example) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        example.write(Path(folder), force=False)
        space = objective_on(model.name, example, Path(folder)).space
    return {
        "name": model.name,
        "title": model.title,
        "options": [_option(option) for option in model.options],
        "covariates": model.covariates,
        "parameters": {name: list(leaf.shape) for name, leaf, _ in space.leaves()},
        "example": example.command(model.name),
    }


def _option(option: Option) -> dict[str, Any]:
    short = f", {option.short}" if option.short else ""
    default = "none" if option.default is None else str(option.default)
    return {"flag": f"{flag(option.name)}{short}", "help": option.help, "default": default}
