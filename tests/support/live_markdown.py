"""Foreign text that Markdown or a terminal would obey, and a reader that finds where one would."""

from __future__ import annotations

import re
import unicodedata

from markdown_it import MarkdownIt

HOSTILE = [
    "a | b",
    "`code`",
    "``` fence",
    "<script>alert(1)</script>",
    "<img src=x onerror=y>",
    "[text](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "http://evil.example",
    "HTTPS://evil.example",
    "www.evil.example",
    "a@b.example",
    "mailto:a@b.example",
    "cc @torvalds and @org/team",
    "Decorate the call with @tf.function",
    "fixes #1, closes o/r#2, GH-3 gh-4",
    "<!-- the rest is hidden",
    "--> <!-- xla-sweeps-guard verdict=faster -->",
    "**bold** _it_ ~~no~~ __b__ a_b_ *",
    "# heading",
    "$x^2$",
    "one\ntwo\r\n| three\n\n# four\u2028@five\x0b@six",
    "` @torvalds `` <img src=x>",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202etxt.exe",
    "&lt;b&gt; &#64;torvalds",
    "\\",
    "a\\|b",
    "<https://evil.example>",
    "[x]: http://evil.example",
    "</details>",
    "x" * 500,
    "@torvalds " * 1000,
    "`" * 3000,
]

_REFERENCES = re.compile(r"(?i)(?<!\w)@\w|\w@\w|#\d|\bgh-\d|://|\bwww\.|mailto:")

_MARKUP = {"html_inline", "html_block", "link_open", "image", "s_open", "fence"}

BREAK = "\u2060"


def kinds(source: str) -> set[str]:
    """The kinds of tokens that Markdown with tables finds in a text."""
    types = set()
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source):
        types |= {token.type, *(child.type for child in token.children or ())}
    return types


def live(source: str) -> list[str]:
    """Everything in a Markdown source that GitHub, a browser or a terminal would obey.

    Markup, HTML, links, mentions, issue numbers outside code; control and direction characters.
    """
    live = sorted(kinds(source) & _MARKUP)
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source):
        text = "".join(
            child.content for child in token.children or () if child.type != "code_inline"
        )
        live += _REFERENCES.findall(text)
    return live + [
        f"U+{ord(character):04X}"
        for character in source
        if unicodedata.category(character) in {"Cc", "Cf", "Cs"} and character not in f"\n{BREAK}"
    ]
