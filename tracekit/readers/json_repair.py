"""JSON that is damaged: what of a text is whole, and how what is none is made JSON."""

import re
from collections.abc import Callable
from itertools import islice

import msgspec

ENDS_EARLY = "it ends within a value"
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoding raises

# Strings and numbers are matched so that nothing inside of them is taken for what JSON lacks: words such as NaN,
# Infinity and N/A, and a comma before a bracket. A string that is cut ends with the text, or each quote in it is one.
_TOKEN = re.compile(
    rb'(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))|[-+]?\d[\w.+-]*+|(?P<word>[-+]?[A-Za-z_][\w/.+-]*+)|(?P<comma>,(?=\s*[\]}]))',
    re.DOTALL,
)
# Brackets, and strings, so that none inside of them counts.
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)
_DEEPEST = 200
# Half of a pair of surrogates alone is no character, though the grammar of JSON has it.
_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = re.compile(
    rb'(?P<escape>\\(?:["\\/bfnrt]|%b|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))|(?P<half>\\u[0-9a-fA-F]{4})'
    rb"|(?P<control>[\x00-\x1f])|\\" % _PAIR
)
# Brackets and commas, and strings, so that none inside of them counts, nor in one that is cut.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)', re.DOTALL)
# An array of objects in an object.
_OBJECTS = re.compile(rb"\[\s*\{")
# Where an object may end that stands in an array: before the next one, or the array's end.
_END_OF_ELEMENT = re.compile(rb"\}(?=\s*(?:,\s*\{|\]))")
_WHERE = re.compile(r"\(byte (\d+)\)")
# So many places are tried for the end of what is damaged, and so many bytes looked through in all, which takes seconds.
_TRIES, _MOST_TRIED = 8, 1 << 32
# A text that is no longer may be repaired as a whole, which takes sixty times its size.
_SMALL = 1 << 20


def whole(text: bytes) -> tuple[bytes, str]:
    """A text as JSON, and how it ends too early, "" if it does not.

    What JSON does not allow is repaired; an object of an array that cannot be is `{}`; what is open where the text ends
    is closed, without what is not whole.
    """
    if (place := _broken(text)) == 0:
        text = shallow(text)
        place = _broken(text)
    if place is not None and len(text) <= _SMALL and _broken(mended := repaired(text)) is None:
        return mended, ""
    opened, tried = _Opened(), 0
    while place is not None and place < len(text) and tried < _MOST_TRIED:
        tried += (_TRIES + 1) * len(text)
        opened.go_on(text, place)
        if (rest := _without_element(text, place, opened)) is None:
            break
        text, place = rest
    if place is None:
        return text, ""
    opened.go_on(text, place)
    why = ENDS_EARLY if place == len(text) else f"it is damaged from byte {place:,} on"
    return opened.closed(text), why


def _broken(text: bytes) -> int | None:
    """Where a text is no JSON, its length where it ends too early, 0 where it is nested too deep; None if it is all
    JSON."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return 0
    except msgspec.DecodeError as error:
        where = _WHERE.search(str(error))
        return int(where[1]) if where else len(text)
    return None


class _Opened:
    """The brackets that are open at a place of a text, from the outside in: where each stands, and where all that is
    whole behind it ends. `at`: up to where the text was looked through; it is JSON that far."""

    def __init__(self) -> None:
        self.at = 0
        self.brackets: list[int] = []
        self.ends = [0]  # of the text first

    def go_on(self, text: bytes, place: int) -> None:
        """Look through the text up to a place."""
        for match in _STRUCTURE.finditer(text, self.at, place):
            if match.lastgroup == "open":
                self.brackets.append(match.start())
                self.ends.append(match.end())
            elif match.lastgroup == "close" and self.brackets:
                self.brackets.pop()
                self.ends.pop()
                self.ends[-1] = match.end()
            elif match.lastgroup == "comma" and self.brackets:
                self.ends[-1] = match.start()
        self.at = place

    def element(self, text: bytes) -> int | None:
        """Which of the brackets is that of the innermost object that stands in an array; None if none does."""
        at = bytes(text[bracket] for bracket in self.brackets).rfind(b"[{")
        return at + 1 if at >= 0 else None

    def leave(self, element: int, end: int) -> None:
        """Go back behind an object of an array, which ends there now."""
        del self.brackets[element:], self.ends[element + 1 :]
        self.at = self.ends[element] = end

    def closed(self, text: bytes) -> bytes:
        """What is whole of the text, closed: without the object of an array in which it ends, unless that is the
        outermost one, and holds objects itself."""
        element = self.element(text)
        if element is not None and self._holds_objects(text, element):
            element = None
        brackets = self.brackets[:element]
        return text[: self.ends[len(brackets)]] + bytes(
            ord("]") if text[at] == ord("[") else ord("}") for at in reversed(brackets)
        )

    def _holds_objects(self, text: bytes, element: int) -> bool:
        """Whether an object is the outermost one that stands in an array, and holds arrays of others."""
        is_outermost = b"[{" not in bytes(text[at] for at in self.brackets[:element])
        return is_outermost and _OBJECTS.search(text, self.brackets[element], self.at) is not None


def _without_element(text: bytes, place: int, opened: _Opened) -> tuple[bytes, int | None] | None:
    """A text without what is broken at `place` in the object of an array, which is repaired or `{}`, and where the text
    is broken now; None where no array holds that. Of the places where the object may end, the first is taken behind
    which another object is whole, else that behind which most is."""
    if (element := opened.element(text)) is None:
        return None
    begin = opened.brackets[element]
    ends = [match.end() for match in islice(_END_OF_ELEMENT.finditer(text, place), _TRIES + 1)]
    tried: list[tuple[int, bytes, int, int]] = []
    for at, end in enumerate(ends[:_TRIES]):
        mended = repaired(text[begin:end]) if end - begin <= _SMALL else b"{}"
        before = text[:begin] + (b"{}" if _broken(mended) is not None else mended)
        attempt = before + text[end:]
        broken = _broken(attempt)
        next_end = len(before) + ends[at + 1] - end if ends[at + 1 :] else len(attempt)
        if broken is None or broken >= next_end:
            opened.leave(element, len(before))
            return attempt, broken
        tried.append((len(attempt) - broken, attempt, broken, len(before)))
    if not tried or (best := min(tried))[0] >= len(text) - place:
        return None
    _, attempt, broken, end = best
    opened.leave(element, end)
    return attempt, broken


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
    """`text` with what JSON does not allow replaced: bad UTF-8, control characters, unknown words (null), escapes,
    halves of characters."""
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
    if match.lastgroup == "half":
        return b"\\ufffd"
    return b"\\u%04x" % match[0][0] if match.lastgroup == "control" else b"\\\\"
