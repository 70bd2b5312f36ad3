"""The user's own rules for what an operation is: a TOML file whose word counts more than anything the trace says."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import remote
from tracekit.columns import by_label, categorical
from tracekit.errors import TracekitError
from tracekit.vocabulary.copies import DIRECTIONS
from tracekit.vocabulary.kinds import Kind, KnownBy

# Key of a rule -> the columns of the events frame in which its pattern is sought; one of them is enough.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "hlo_op"),
    "lane": ("lane",),
    "device": ("device",),
    "category": ("category",),
}
_KEYS = (*_COLUMNS, "kind", "direction")
# Codes in the columns of the events frame.
_KINDS = {kind: code for code, kind in enumerate(Kind)}
_WAYS: Mapping[str | None, int] = {None: -1, **{way: code for code, way in enumerate(DIRECTIONS)}}


@dataclass(frozen=True)
class Rule:
    """Rows in which all `patterns` (by key of _COLUMNS) are found are of `kind`; `label` says where the rule stands."""

    label: str
    patterns: Mapping[str, re.Pattern[str]]
    kind: Kind
    direction: str | None = None


def read(location: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """The rules in the TOML file at a path or URL, in order; docs/kinds.md describes it.

    Raises TracekitError, which names the file and the rule, if there is no such file or rule or if one is wrong.
    """
    return tuple(_rule(label, table) for label, table in tables(location, "--kinds", "docs/kinds.md"))


def tables(location: str | os.PathLike[str], option: str, shown_in: str) -> list[tuple[str, dict[str, Any]]]:
    """The tables [[rule]] in the TOML file at a path or URL, each with its place in words: Rule 1 of kinds.toml.

    Raises TracekitError where there is no such file or rule, or another key; it names the `option` that gave the file,
    or the page where one is `shown_in`.
    """
    place = remote.place(location)
    try:
        with remote.fetched(place) as path:
            content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise TracekitError(f"The rules file {place} does not exist. Check {option}.") from None
    except OSError as error:
        raise TracekitError(f"The rules file {place} cannot be read: {error.strerror}. Check {option}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TracekitError(f"The rules file {place} is not TOML: {error}. {shown_in} shows one.") from None
    other = [key for key in content if key != "rule"]
    if other:
        raise TracekitError(f"{place} holds {other[0]!r}, which is no rule: each rule is a table that begins [[rule]].")
    rules = content.get("rule")
    if not (isinstance(rules, list) and rules and all(isinstance(rule, dict) for rule in rules)):
        raise TracekitError(f"{place} holds no rules: each rule is a table that begins [[rule]].")
    return [(f"Rule {number} of {place}", rule) for number, rule in enumerate(rules, 1)]


def _rule(label: str, table: Mapping[str, Any]) -> Rule:
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise TracekitError(f"{label}: {unknown[0]!r} is no key of a rule; it may hold {', '.join(_KEYS)}.")
    patterns = {key: _pattern(label, key, table[key]) for key in _COLUMNS if key in table}
    if not patterns:
        raise TracekitError(f"{label} does not say which rows it is about: give it a name, lane, device or category.")
    kind, direction = table.get("kind"), table.get("direction")
    if kind not in list(Kind):
        raise TracekitError(f"{label}: kind is {_quoted(kind)}; it must be one of {', '.join(Kind)}.")
    if direction is not None and kind != Kind.MEMCPY:
        raise TracekitError(f"{label}: only a memcpy has a direction; leave it out, or say kind = 'memcpy'.")
    if direction is not None and direction not in DIRECTIONS:
        raise TracekitError(f"{label}: direction is {_quoted(direction)}; it must be one of {', '.join(DIRECTIONS)}.")
    return Rule(label, patterns, Kind(kind), direction)


def _pattern(label: str, key: str, value: Any) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise TracekitError(f"{label}: {key} is {_quoted(value)}; it must be a regular expression in quotes.")
    try:
        return re.compile(value)
    except re.error as error:
        raise TracekitError(f"{label}: {key} = {value!r} is no regular expression: {error}.") from None


def _quoted(value: Any) -> str:
    return "missing" if value is None else repr(value)


def apply(events: pd.DataFrame, rules: Sequence[Rule]) -> pd.DataFrame:
    """`events` with the kind that the first matching rule says, known_by "rule"; other rows stay as they are.

    A direction that no rule gives stays where a copy had one. Patterns are sought (re.search) once for every distinct
    name, lane, device and category; the frame that was given is not changed.
    """
    rule = np.full(len(events), -1)
    for number, rows in reversed(list(enumerate(_matches(events, rules)))):
        rule[rows] = number
    ruled = rule >= 0
    # The last of each table is taken where no rule matches.
    kind = np.where(ruled, np.array([*(_KINDS[each.kind] for each in rules), -1])[rule], events["kind"].cat.codes)
    way = np.array([*(_WAYS[each.direction] for each in rules), -1])[rule]
    way = np.where(way >= 0, way, events["direction"].cat.codes)
    way[kind != _KINDS[Kind.MEMCPY]] = -1
    known_by = events["known_by"].cat
    levels = [*known_by.categories, KnownBy.RULE.value, None]
    return events.assign(
        kind=pd.Categorical.from_codes(kind, pd.Index([each.value for each in Kind])),
        direction=pd.Categorical.from_codes(way, pd.Index(DIRECTIONS)),
        known_by=categorical(levels, np.where(ruled, len(levels) - 2, known_by.codes)),
    )


def unused(events: pd.DataFrame, rules: Sequence[Rule]) -> tuple[str, ...]:
    """One sentence for each rule that decides no row of `events`, the frame to which the rules are applied."""
    decided = np.zeros(len(events), bool)
    sentences = []
    for rule, rows in zip(rules, _matches(events, rules), strict=True):
        if not rows.any():
            sentences.append(f"{rule.label} matches no row.")
        elif not (rows & ~decided).any():
            sentences.append(f"{rule.label} decides nothing: rules before it match every row that it matches.")
        decided |= rows
    return tuple(sentences)


def _matches(events: pd.DataFrame, rules: Sequence[Rule]) -> list[NDArray[np.bool_]]:
    """Which rows each rule matches, one array of shape (len(events),) a rule."""
    return [
        np.logical_and.reduce(
            [
                np.logical_or.reduce([_matching(pattern, events[column]) for column in _COLUMNS[key]])
                for key, pattern in rule.patterns.items()
            ]
        )
        for rule in rules
    ]


def _matching(pattern: re.Pattern[str], column: pd.Series) -> NDArray[np.bool_]:
    """In which rows of a categorical column the pattern is found; in a null it is not."""
    return by_label(column.array, lambda value: pattern.search(str(value)) is not None)
