"""Indices of pandas as plain JSON, and back: the same index, or a sentence that there is no such one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.packing import pack_array, pack_words, to_array, to_word, to_words


class NotKeptError(ValueError):
    """An index that would come back as another one."""


def encoded_index(index: pd.Index) -> dict[str, Any]:
    """As JSON; raises `NotKeptError` where that would not be the same index."""
    try:
        found = _of_index(index)
        same = _are_same(decoded_index(found), index)
    except (ValueError, TypeError, AttributeError, OverflowError):  # pandas raises many types
        same = False
    if not same:
        raise NotKeptError(f"an index that files do not keep ({_described(index)})")
    return found


def decoded_index(found: dict[str, Any]) -> pd.Index:
    """Inverse of `encoded_index`."""
    kind, name = found["kind"], _to_name(found["name"])
    if kind == "range":
        start, stop, step = found["ends"]
        return pd.RangeIndex(int(start), int(stop), int(step), name=name)
    if kind == "words":
        return pd.Index(list(to_words(found["values"])), dtype=found.get("dtype"), name=name)
    if kind == "levels":
        return pd.MultiIndex.from_arrays([decoded_index(level) for level in found["levels"]])
    if kind == "categories":
        codes, among = to_array(found["values"]), decoded_index(found["among"])
        made = pd.Categorical.from_codes(codes, among, ordered=bool(found["ordered"]))
        return pd.CategoricalIndex(made, name=name)
    numbers = to_array(found["values"])
    if kind == "numbers":
        return pd.Index(numbers, dtype=found.get("dtype"), name=name)
    if kind == "period":
        dtype = pd.PeriodDtype(to_word(found["freq"]))
        return pd.PeriodIndex(pd.arrays.PeriodArray(numbers, dtype=dtype), name=name)
    freq = _to_freq(found["freq"])
    if kind == "timedelta":
        return pd.TimedeltaIndex(numbers.view(f"m8[{to_word(found['unit'])}]"), freq=freq, name=name)
    if kind != "datetime":
        raise ValueError(f"it has an index of unknown kind, {kind!r:.40}")
    moments = pd.DatetimeIndex(numbers.view(f"M8[{to_word(found['unit'])}]"), name=name)
    if found["zone"] is not None:
        moments = moments.tz_localize("UTC").tz_convert(to_word(found["zone"]))
    return pd.DatetimeIndex(moments, freq=freq, name=name)


def _of_index(index: pd.Index) -> dict[str, Any]:
    if isinstance(index, pd.MultiIndex):
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        return {"kind": "levels", "name": None, "levels": [_of_index(level) for level in levels]}
    made = {"name": _of_name(index.name)}
    if isinstance(index, pd.RangeIndex):
        return {"kind": "range", **made, "ends": [index.start, index.stop, index.step]}
    if isinstance(index, pd.CategoricalIndex):
        made |= {"among": _of_index(index.categories), "ordered": index.ordered}
        return {"kind": "categories", **made, "values": pack_array(np.asarray(index.codes, np.int64))}
    if isinstance(index, (pd.PeriodIndex, pd.DatetimeIndex, pd.TimedeltaIndex)):
        made["values"] = pack_array(np.asarray(index.asi8))
    if isinstance(index, pd.PeriodIndex):
        return {"kind": "period", **made, "freq": index.freqstr}
    if isinstance(index, pd.DatetimeIndex):
        zone = None if index.tz is None else _of_zone(index.tz)
        return {
            "kind": "datetime",
            **made,
            "unit": index.unit,
            "zone": zone,
            "freq": _of_freq(index.freq),
        }
    if isinstance(index, pd.TimedeltaIndex):
        return {"kind": "timedelta", **made, "unit": index.unit, "freq": _of_freq(index.freq)}
    if index.dtype.kind in "biuf":
        plain = isinstance(index.dtype, np.dtype)
        made |= {} if plain else {"dtype": str(index.dtype)}
        return {"kind": "numbers", **made, "values": pack_array(_numbers(index))}
    made |= {"dtype": "string"} if str(index.dtype) == "string" else {}
    return {"kind": "words", **made, "values": pack_words([str(item) for item in index])}


def _numbers(index: pd.Index) -> np.ndarray:
    """Of NumPy's types; raises where some are missing, which these cannot be."""
    kinds = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}
    plain = isinstance(index.dtype, np.dtype)
    return index.to_numpy() if plain else index.to_numpy(dtype=kinds[index.dtype.kind])


def _of_name(name: Any) -> Any:
    """Text and numbers as they are, and tuples of them as lists."""
    if isinstance(name, tuple):
        return [_of_name(part) for part in name]
    plain = name.item() if isinstance(name, np.generic) else name
    if plain is None or isinstance(plain, (str, int, float)):
        return plain
    raise ValueError(f"a name must be text or a number, got {type(name).__name__}")


def _to_name(found: Any) -> Any:
    return tuple(map(_to_name, found)) if isinstance(found, list) else found


def _of_zone(zone: Any) -> str:
    """A name by which pandas finds the zone; dateutil's are files."""
    if type(zone).__module__.split(".")[0] != "dateutil":
        return str(zone)
    if type(zone).__name__ == "tzutc":
        return "dateutil/UTC"
    return "dateutil/" + str(zone._filename).split("zoneinfo/")[-1]


def _of_freq(freq: Any) -> Any:
    """None, text, or the arguments of an offset whose text lacks some of them."""
    if type(freq) is pd.offsets.CustomBusinessDay:
        holidays = [str(day) for day in freq.holidays]
        return {"days": freq.n, "week": freq.weekmask, "without": holidays}
    return None if freq is None else str(freq.freqstr)


def _to_freq(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    week, without = to_word(found["week"]), [to_word(day) for day in found["without"]]
    return pd.offsets.CustomBusinessDay(int(found["days"]), weekmask=week, holidays=without)


def _are_same(found: pd.Index, index: pd.Index) -> bool:
    """Whether two are equal, with names, zones and frequencies; text may come back as another type."""
    if isinstance(index, pd.MultiIndex):
        levels = range(index.nlevels)
        return all(_are_same(*(x.get_level_values(k) for x in (found, index))) for k in levels)
    if index.dtype == object and not all(isinstance(item, str) for item in index):
        return False
    return (
        type(found) is type(index)
        and found.equals(index)
        and found.name == index.name
        and (found.dtype == index.dtype or index.dtype == object)
        and getattr(found, "freq", None) == getattr(index, "freq", None)
    )


def _described(index: pd.Index) -> str:
    freq = getattr(index, "freq", None)
    of = f"of {index.dtype}" if index.nlevels == 1 else f"of {index.nlevels} levels"
    return f"{type(index).__name__} {of}{'' if freq is None else f' with freq {freq!r:.80}'}"
