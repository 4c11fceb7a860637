"""Flat tables of settings: keys of a file, flags of a command, arguments in Python. No torch here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Self

from nestree.data.errors import DataError


def key(default: Any, group: str, meaning: str, choices: tuple[str, ...] | None = None) -> Any:
    """A setting: its default, the heading it stands under, what it means, and what it can be."""
    return field(default=default, metadata={"group": group, "help": meaning, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """Settings whose fields are made by :func:`key`."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value, choices = _of_type(one.name, getattr(self, one.name), _TYPES[str(one.type)]), one.metadata["choices"]
            object.__setattr__(self, one.name, value)
            if choices and value not in choices:
                raise ValueError(f"{one.name} is {value!r}; known are {', '.join(map(repr, choices))}.")

    def at_least_one(self, *names: str) -> None:
        """Raises a ValueError if one of these is less than 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")

    def not_negative(self, *names: str) -> None:
        """Raises a ValueError if one of these is negative, or not finite."""
        for name in names:
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be a number, 0 or more.")

    def shares(self, *names: str) -> None:
        """Raises a ValueError if one of these is no share: 0 or more, and less than 1."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0 and less than 1.")

    def as_dict(self) -> dict[str, Any]:
        """All keys and values."""
        return asdict(self)

    def as_toml(self) -> str:
        """As a file that :func:`read_settings` reads."""
        return "".join(f"{name} = {_toml(value)}\n" for name, value in self.as_dict().items())

    def updated(self, values: Mapping[str, Any], where: str = "the settings") -> Self:
        """With other values for some keys. Unknown keys are an error that lists the known ones."""
        known = [one.name for one in fields(self)]
        for name in values:
            if name not in known:
                close = get_close_matches(name, known, 1)
                meant = f" Did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"{where}: unknown key {name!r}.{meant} Known are {', '.join(known)}.")
        try:
            return replace(self, **values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


_TYPES = {"str": str, "int": int, "float": float, "bool": bool}


def _of_type(name: str, value: Any, wanted: type) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        kind = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}[wanted]
        raise ValueError(f"{name} is {value!r}; it must be {kind}.")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value)
        return f'"{escaped}"'
    return repr(value)


_ESCAPES = {"\\": "\\\\", '"': '\\"'}


def read_settings(path: str | PathLike[str]) -> dict[str, Any]:
    """The keys and values of a TOML file."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"this is no TOML: {error}", path=str(path)) from None
    tables = [name for name, value in values.items() if isinstance(value, (dict, list))]
    if tables:
        raise DataError(
            f"{tables[0]!r} is a table or list", path=str(path), advice="Settings are flat: one `key = value` a line."
        )
    return values
