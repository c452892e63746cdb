"""What comes of an input: a right answer, a refusal in one sentence, or a failure of some kind."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fitonce as fo
from watching import watched

SOURCE = str(Path(fo.__file__).parent)
HERE = str(Path(__file__).parent)
LONGEST = 600  # characters of a sentence
PATIENCE = 120  # seconds until an input counts as hung
MUST_BE = "refused, as it must be"  # a note that judges put on errors
NO_ANSWER = (fo.IndefiniteError, fo.UnsolvedError)  # of fits, whatever the data


class Refused(Exception):  # noqa: N818 - no error
    """The command line refused an input, in a sentence."""


class Outcome(NamedTuple):
    """`kind`: "right", "refused", or that of a failure; `where`: what tells failures apart."""

    kind: str
    text: str = ""
    where: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("right", "refused")


def outcome_of(judge: Callable[[Any], None], recipe: dict[str, Any]) -> Outcome:
    """Of one input; a recipe that is `plain` may not be refused."""
    try:
        with watched(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("error")
            judge(recipe)
    except Refused as error:
        return Outcome("refused", str(error))
    except AssertionError as error:
        return Outcome("wrong answer", str(error), str(error).split(":")[0].split(" (")[0])
    except (ValueError, TypeError) as error:
        return _refusal(error, recipe)
    except Warning as error:
        return Outcome("warning", f"{type(error).__name__}: {error}", _place(error))
    except TimeoutError as error:
        return Outcome("hung", str(error), _place(error))
    except Exception as error:
        return Outcome("raw error", f"{type(error).__name__}: {error}", _place(error))
    return Outcome("right")


def _refusal(error: Exception, recipe: dict[str, Any]) -> Outcome:
    text, last = str(error), traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {text}"
    on_purpose = linecache.getline(last.filename, last.lineno).strip().startswith("raise")
    if not last.filename.startswith(SOURCE) or not on_purpose:
        return Outcome("raw error", said, _place(error))
    if "\n" in text or not 10 <= len(text) <= LONGEST:
        return Outcome("no sentence", said, _place(error))
    asked_for = MUST_BE in getattr(error, "__notes__", ())
    if recipe.get("plain") and not asked_for and not isinstance(error, NO_ANSWER):
        return Outcome("refused what is right", said, _place(error))
    return Outcome("refused", text)


def _place(error: BaseException) -> str:
    """The last line of the library that took part."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(SOURCE)] or frames[-1:]
    return f"{type(error).__name__} in {Path(ours[-1].filename).name}:{ours[-1].name}"
