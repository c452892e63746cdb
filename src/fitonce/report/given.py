"""What a report is given."""

from __future__ import annotations

from typing import Any

# A `CVResult`. It writes reports itself, so this package cannot import it.
Result = Any
