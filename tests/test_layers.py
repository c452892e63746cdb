"""The house stands as docs/design.md says: floors of packages, no circles, families side by side."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fitonce"

FLOORS = [
    ("core",),
    ("data", "engines"),
    ("folds", "models", "results"),
    ("objectives",),
    ("fitting", "neural"),
    ("crossval",),
    ("analysis", "bridges"),
    ("__init__",),
    ("cli",),
    ("__main__",),
]


def name_of(path):
    """`crossval.loo` of src/fitonce/crossval/loo.py; a package's own file is the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@cache
def modules():
    return {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def only_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def imports(path):
    """Modules of fitonce that a file imports, inside functions too, but not for type checkers alone."""
    pending = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        pending += [] if only_for_types(node) else list(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fitonce":
            inside = node.module.removeprefix("fitonce").removeprefix(".")
            for alias in node.names:
                whole = f"{inside}.{alias.name}".removeprefix(".")
                yield whole if whole in modules() else inside or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fitonce":
                    yield alias.name.removeprefix("fitonce").removeprefix(".") or "__init__"


@cache
def graph():
    return {name: frozenset(imports(path)) - {name} for name, path in modules().items()}


@cache
def longest_path(name):
    """The longest chain of imports that starts at a module."""
    return (name, *max((longest_path(other) for other in graph()[name]), key=len, default=()))


def floor_of(module):
    return next(n for n, floor in enumerate(FLOORS) if module.split(".")[0] in floor)


def test_only_packages_stand_in_the_hall():
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == {name for floor in FLOORS for name in floor if not name.startswith("__")}
    assert len(packages) <= 13


def test_no_file_imports_from_a_higher_floor():
    for number, floor in enumerate(FLOORS, 1):
        print(f"floor {number}: {', '.join(floor)}")
    climbs = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if floor_of(other) > floor_of(name)
        or (floor_of(other) == floor_of(name) and other.split(".")[0] != name.split(".")[0])
    ]
    assert not climbs


def test_no_file_imports_itself_by_a_detour():
    left = dict(graph())
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"a circle among {sorted(left)}"
    print(" > ".join(max(map(longest_path, graph()), key=len)))


def family_of(module):
    """The family that a module belongs to: a package of `objectives`, or `custom`; None if shared."""
    parts = module.split(".")
    families = {path.parent.name for path in SOURCE.glob("objectives/*/__init__.py")} | {"custom"}
    return parts[1] if parts[0] == "objectives" and parts[1:] and parts[1] in families else None


def test_families_do_not_know_each_other():
    for name, others in graph().items():
        for other in others if family_of(name) else ():
            assert family_of(other) in (None, family_of(name)), f"{name} imports {other}"


def test_models_and_engines_do_not_know_each_other():
    for name, others in graph().items():
        for one, apart in (("models", "engines"), ("engines", "models")):
            if name.split(".")[0] == one:
                assert not [other for other in others if other.split(".")[0] == apart], name


ABOVE_THE_WAIST = ("fitting", "crossval", "analysis")


def test_nothing_above_the_waist_imports_a_model():
    for name, others in graph().items():
        if name.split(".")[0] in ABOVE_THE_WAIST:
            assert not [other for other in others if other.split(".")[0] == "models"], name


def classes_of_models():
    return {
        node.name
        for name, path in modules().items()
        if name.split(".")[0] == "models"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }


def test_nothing_above_the_waist_asks_for_a_model_by_its_class():
    known, asks = classes_of_models(), ("isinstance", "issubclass")
    found = [
        (name, one.id)
        for name, path in modules().items()
        if name.split(".")[0] in ABOVE_THE_WAIST
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in asks
        for one in ast.walk(node.args[1])
        if isinstance(one, ast.Name) and one.id in known
    ]
    assert not found


def test_the_design_page_has_these_floors():
    page = (ROOT / "docs" / "design.md").read_text()
    shown = re.findall(r"^\| \d+ \| ([^|]*) \|", page, re.M)
    assert [tuple(re.findall(r"`(\w+)`", row)) for row in shown] == FLOORS


def test_no_two_classes_have_one_name():
    found = [
        (node.name, name)
        for name, path in modules().items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    names = [name for name, _ in found]
    assert not [(name, module) for name, module in found if names.count(name) > 1]
