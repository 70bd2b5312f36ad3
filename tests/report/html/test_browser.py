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
