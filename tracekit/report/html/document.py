"""A page in one HTML file that needs nothing else: its frame and head, its colours, its picture, and what may run."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template

from tracekit.report import palette
from tracekit.report.html.markup import Markup, join, prose, tag

# A figure has its own ground, and on a narrow screen scrolls sideways.
PICTURE_STYLE = ".picture img{width:100%;min-width:44rem;height:auto}.picture{overflow-x:auto}"


def document(
    title: str,
    places: Iterable[tuple[str, str]],
    header: Markup,
    body: Markup,
    foot: Markup,
    *,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
) -> str:
    """A page: UTF-8, no request to anywhere, scripts known to its policy by their hash.

    `places` are the id and the title of each section that its navigation leads to; `styles` come after those of every
    page.
    """
    links = (tag("li", tag("a", words, href=f"#{key}")) for key, words in places)
    return Template(read("page.html")).substitute(
        title=tag("title", f"tracekit: {title}"),
        policy=_policy(scripts),
        style=tag("style", Markup("\n".join([_colours(), read("page.css"), *styles]))),
        navigation=tag("ul", *links),
        header=header,
        body=body,
        foot=foot,
        script=join(tag("script", Markup(script)) for script in scripts),
    )


def head(kicker: Markup, headline: str, facts: Mapping[str, object]) -> Markup:
    """What a page begins with: what made it, the finding, and what it is about."""
    items = [tag("div", tag("dt", words), tag("dd", value)) for words, value in facts.items()]
    about = tag("dl", *items, class_="facts traced")
    return join([tag("p", kicker, class_="kicker"), tag("h1", prose(headline)), about])


def picture(light: bytes, dark: bytes, alt: str) -> Markup:
    """A figure as SVG, on light ground and on dark; its page needs PICTURE_STYLE."""
    on_light, on_dark = (f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" for svg in (light, dark))
    source = tag("source", media="(prefers-color-scheme: dark)", srcset=on_dark)
    return tag("div", tag("picture", source, tag("img", src=on_light, alt=alt)), class_="picture wide")


def _policy(scripts: Iterable[str]) -> Markup:
    """Nothing is loaded from anywhere, and no script runs but these, whatever a name may hold."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    rules = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    return tag("meta", http_equiv="Content-Security-Policy", content=f"{rules}; base-uri 'none'; form-action 'none'")


def _colours() -> str:
    """The palette as custom properties, dark where the reader or the system asks for it, never on paper."""
    light, dark = (_properties(theme) for theme in (palette.LIGHT, palette.DARK))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    )


def _properties(theme: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in palette.properties(theme).items())


@cache
def read(file: str) -> str:
    """A style, script or template of the page."""
    return (resources.files(__package__) / file).read_text("utf-8")
