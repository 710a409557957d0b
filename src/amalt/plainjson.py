"""JSON that any reader understands: what is not a finite number is null."""

from __future__ import annotations

import json
import math
from typing import Any, cast


def dumps(content: Any, *, indent: int | None = None) -> str:
    """Return the JSON of dictionaries, lists and plain values.

    Examples
    --------
    >>> dumps({"a": [1.5, float("nan")]})
    '{"a": [1.5, null]}'
    """
    return json.dumps(_finite(content), allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for by null."""
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in cast(list[Any], value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
