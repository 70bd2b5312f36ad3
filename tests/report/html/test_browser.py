"""The fixture that every browser test trusts: it sees errors, requests and dialogs."""

import pytest

from tests.browser import Pages


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>console.error('sour')</script>", "console: sour"),
        ("<script>null.x</script>", "page error: Cannot read properties of null (reading 'x')"),
        ("<script>alert('hello')</script>", "dialog: hello"),
        ("<img src='http://127.0.0.1:9/x.png'>", "request: http://127.0.0.1:9/x.png"),
    ],
)
def test_what_a_page_does_wrong_is_seen(chromium, tmp_path, body, problem):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>t</title>{body}", "utf-8")
    pages = Pages(chromium)
    pages.open(path)
    with pytest.raises(AssertionError):
        pages.close()
    assert problem in pages.problems


def test_a_page_that_keeps_to_itself_is_fine(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><title>quiet</title><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "utf-8"
    )
    assert open_page(path).title() == "quiet"


def test_a_tab_that_a_test_leaves_is_as_good_as_new(chromium, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<title>quiet</title>", "utf-8")
    state = """[localStorage.length, sessionStorage.length, innerWidth, innerHeight,
        matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("print").matches]"""
    tabs, states, seen = [], [], []
    for how in ({}, {"viewport": {"width": 400, "height": 300}, "color_scheme": "dark"}, {}):
        pages = Pages(chromium, tabs)
        page = pages.open(path, **how)
        states.append(page.evaluate(state))
        seen.append(page)
        page.evaluate("localStorage.setItem('a', 'b'); sessionStorage.setItem('a', 'b')")
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 500, "height": 500})
        pages.close()
    assert seen[0] is seen[1] is seen[2]
    assert states == [[0, 0, 1280, 900, False, False], [0, 0, 400, 300, True, False], [0, 0, 1280, 900, False, False]]
    tabs[0].context.close()
