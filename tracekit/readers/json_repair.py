"""JSON that is damaged: what of a text is whole, and how what is none is made JSON."""

import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import msgspec

BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoding raises

# Strings and numbers are matched so that nothing inside of them is taken for what JSON lacks: words such as NaN,
# Infinity and N/A, and a comma before a bracket.
_TOKEN = re.compile(
    rb'(?P<text>"(?:[^"\\]|\\.)*+")|[-+]?\d[\w.+-]*+|(?P<word>[-+]?[A-Za-z_][\w/.+-]*+)|(?P<comma>,(?=\s*[\]}]))',
    re.DOTALL,
)
# Brackets, and strings, so that none inside of them counts.
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)
_DEEPEST = 200
_CHARACTER = re.compile(rb'(?P<escape>\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|(?P<control>[\x00-\x1f])|\\')
# Brackets and commas, and strings, so that none inside of them counts, nor in one that is cut.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)', re.DOTALL)
# Where an object may end that stands in an array: before the next one, or the array's end.
_END_OF_ELEMENT = re.compile(rb"\}(?=\s*(?:,\s*\{|\]))")
_WHERE = re.compile(r"\(byte (\d+)\)")
# So many places are tried for the end of what is damaged, and so many bytes looked through in all, which takes seconds.
_TRIES, _MOST_TRIED = 8, 1 << 29


def whole(text: bytes) -> tuple[bytes, str]:
    """A text as JSON, and how it ends too early, "" if it does not.

    What JSON does not allow is repaired; an object of an array that cannot be is `{}`; what is open where the text ends
    is closed, without what is not whole.
    """
    place = _broken(text)
    if place is not None and place < len(text):
        for attempt in (repaired(text), repaired(shallow(text))):
            if _broken(attempt) is None:
                return attempt, ""
    tried = 0
    while place is not None and place < len(text) and tried < _MOST_TRIED:
        tried += (_TRIES + 1) * len(text)
        if (rest := _without_element(text, place)) is None:
            break
        text, place = rest
    if place is None:
        return text, ""
    why = "it ends within a value" if place == len(text) else f"it is damaged from byte {place:,} on"
    return _closed(text, place), why


def _broken(text: bytes) -> int | None:
    """Where a text is no JSON, its length where it ends too early; None if it is all JSON."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return 0
    except msgspec.DecodeError as error:
        where = _WHERE.search(str(error))
        return int(where[1]) if where else len(text)
    return None


class _Open(NamedTuple):
    """A bracket that is open at some place, and where all that is whole behind it ends."""

    at: int
    end: int


def _open(text: bytes, place: int) -> tuple[list[_Open], int]:
    """The brackets that are open at a place up to which a text is JSON, from the outside in; where none is, the end of
    its value, else the place."""
    found: list[_Open] = []
    for match in _STRUCTURE.finditer(text, 0, place):
        if match.lastgroup == "open":
            found.append(_Open(match.start(), match.end()))
        elif match.lastgroup == "close":
            found.pop()
            if not found:
                return found, match.end()
            found[-1] = found[-1]._replace(end=match.end())
        elif match.lastgroup == "comma" and found:
            found[-1] = found[-1]._replace(end=match.start())
    return found, place


def _element(text: bytes, opened: list[_Open]) -> int | None:
    """Which of the open brackets is that of the innermost object that stands in an array; None if none does."""
    kinds = bytes(text[each.at] for each in opened)
    at = kinds.rfind(b"[{")
    return at + 1 if at >= 0 else None


def _without_element(text: bytes, place: int) -> tuple[bytes, int | None] | None:
    """A text with `{}` for the object of an array that is broken at `place`, and where it is broken now; None where no
    array holds that. Of the places where the object may end, the first is taken behind which another object is whole,
    else that behind which most is."""
    opened, _ = _open(text, place)
    if (element := _element(text, opened)) is None:
        return None
    before = text[: opened[element].at] + b"{}"
    ends = [match.end() for match in islice(_END_OF_ELEMENT.finditer(text, place), _TRIES + 1)]
    found: list[tuple[int, bytes, int]] = []
    for at, end in enumerate(ends[:_TRIES]):
        attempt = before + text[end:]
        if (broken := _broken(attempt)) is None:
            return attempt, None
        next_end = len(before) + ends[at + 1] - end if ends[at + 1 :] else len(attempt)
        if broken >= next_end:
            return attempt, broken
        found.append((len(attempt) - broken, attempt, broken))
    left, attempt, broken = min(found, default=(len(text), text, place))
    return (attempt, broken) if left < len(text) - place else None


def _closed(text: bytes, place: int) -> bytes:
    """What is whole of a text that is JSON up to a place, closed there."""
    opened, end = _open(text, place)
    if not opened:
        return text[:end]
    element = _element(text, opened)
    opened = opened[:element]
    closing = bytes(ord("]") if text[each.at] == ord("[") else ord("}") for each in reversed(opened))
    return text[: opened[-1].end] + closing


def shallow(text: bytes, on_loss: Callable[[], None] = lambda: None) -> bytes:
    """`text` with null for what is nested deeper than any trace is, of which `on_loss` is told."""
    parts: list[bytes] = []
    depth = kept = 0
    for match in _BRACKET.finditer(text):
        if match.lastgroup == "open":
            depth += 1
            if depth == _DEEPEST:
                parts.append(text[kept : match.start()] + b"null")
                on_loss()
        elif match.lastgroup == "close":
            if depth == _DEEPEST:
                kept = match.end()
            depth -= 1
    return b"".join(parts) + (text[kept:] if depth < _DEEPEST else b"")


def repaired(text: bytes) -> bytes:
    """`text` with what JSON does not allow replaced: bad UTF-8, control characters, unknown words (null), escapes."""
    return _TOKEN.sub(_token, text.decode("utf-8", "replace").encode())


def _token(match: re.Match[bytes]) -> bytes:
    if match.lastgroup == "text":
        return _CHARACTER.sub(_character, match[0])
    if match.lastgroup == "word":
        return match[0] if match[0] in (b"true", b"false", b"null") else b"null"
    return b"" if match.lastgroup == "comma" else match[0]


def _character(match: re.Match[bytes]) -> bytes:
    if match.lastgroup == "escape":
        return match[0]
    return b"\\u%04x" % match[0][0] if match.lastgroup == "control" else b"\\\\"
