"""The built site: it builds without a warning, loads nothing from elsewhere, and its search works from disk."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

if importlib.util.find_spec("zensical") is None:
    pytest.skip("Zensical is not installed (dependency group docs)", allow_module_level=True)

# What a page loads, as against what it links to.
LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?([^\"'\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    project = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", project)
    shutil.copytree(ROOT / "docs", project / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(project / "mkdocs.yml")]
    process = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return project / "site"


def test_every_page_is_in_the_navigation_and_built(site):
    in_navigation = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert in_navigation == pages
    assert {str(path.relative_to(site)) for path in site.rglob("*.html")} >= {page[:-2] + "html" for page in pages}


def test_no_page_loads_anything_from_elsewhere(site):
    for page in site.rglob("*.html"):
        for address in LOADED.findall(page.read_text("utf-8")):
            if "://" in address or address.startswith("//"):
                raise AssertionError(f"{page.name} loads {address}")
            assert (page.parent / address.partition("?")[0]).exists() or page.name == "404.html", f"{page}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\((?:[\"']?)(?:https?:)?//", style.read_text("utf-8")), style


def test_pictures_are_small_and_used(site):
    text = "".join(path.read_text("utf-8") for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"))
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.stat().st_size < 150_000, path.name
        assert f"images/{path.name}" in text, f"no page shows {path.name}"


def test_pages_open_from_disk_and_the_search_finds(site, chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    requests: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    for name in ("tutorial/first-capture.html", "concepts.html", "compare.html", "index.html"):
        page.goto(Path(site / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than a phone"
    page.set_viewport_size({"width": 1280, "height": 800})
    page.keyboard.press("/")
    field = page.get_by_placeholder("Search").first
    field.click()
    for letter in "contention":  # letter by letter: each answer of the search redraws the field
        page.keyboard.type(letter)
        page.wait_for_timeout(20)
    page.get_by_text("Overlap is no proof").first.wait_for(timeout=60_000)
    assert field.input_value() == "contention"
    page.close()
    assert wrong == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
