"""What a name or sentence becomes in Markdown: text, and nothing that a renderer would obey."""

import pytest

from tracekit.report.markdown import code, escaped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gemm_f32 (2 of 8), 3.5 %", "gemm_f32 (2 of 8), 3.5 %"),
        ("[click](http://evil)", r"\[click\](http\://evil)"),
        ("![i](x.png)", r"!\[i\](x.png)"),
        ("www.evil.example, a@b.c", r"www\.evil.example, a@<!-- -->b.c"),
        ("mailto:a@b.c xmpp:a@b.c", r"mailto\:a@<!-- -->b.c xmpp\:a@<!-- -->b.c"),
        ("@user _a_@b.c", r"@<!-- -->user \_a\_@<!-- -->b.c"),
        ("<b>&lt;&", "&lt;b>&amp;lt;&"),
        ("*bold* _it_ ~~no~~ a_b", r"\*bold\* \_it\_ \~\~no\~\~ a_b"),
        ("a|b\\", r"a\|b\\"),
        ("`x` and `pip install matplotlib`", "`x` and `pip install matplotlib`"),
        ("`[x](y)`", r"\`\[x\](y)\`"),
        ("# head", r"\# head"),
        ("1. first", r"1\. first"),
        ("- item", r"\- item"),
        ("-", "-"),
        ("> quote", r"\> quote"),
        ("$x^2$", "<span>&#36;</span>x^2<span>&#36;</span>"),
        ("a\u200bb\ufe0f", "a�b�"),
        ("a\nb\x1b[31m\u202ec", r"a b␛\[31m�c"),
    ],
)
def test_text_stays_text(text, expected):
    assert escaped(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("a/b.json", "`a/b.json`"), ("a`b``c\n", "``` a`b``c  ```")])
def test_code_holds_whatever_it_is_of(text, expected):
    assert code(text) == expected
