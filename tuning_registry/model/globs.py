"""Patterns with `*`, `?` and `[...]`, matched as a shell matches file names, and the same in SQL."""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = re.compile(r"[*?\[]")
_PART: Final = re.compile(r"(?P<any>\*+)|(?P<one>\?)|\[(?P<no>!?+)(?P<of>.[^\]]*)\]|(?P<text>.)", re.DOTALL)


def is_glob(text: str) -> bool:
    """Whether a text has a wildcard."""
    return _SPECIAL.search(text) is not None


def glob_regex(pattern: str, before: str = "") -> str:
    r"""A regular expression that matches all of a text, in the syntax that Python and Postgres share.

    Args:
        pattern: The pattern. `*` matches any characters, `?` one, `[abc]` one of these, `[!abc]` one of no others.
        before: A regular expression for what may precede it.
    """
    return rf"(?s)\A{before}{''.join(map(_translated, _PART.finditer(pattern)))}\Z"


def _translated(part: re.Match[str]) -> str:
    if part["any"]:
        return ".*"
    if part["one"]:
        return "."
    if part["of"] is not None:
        members = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", part["of"])
        return f"[{'^' if part['no'] else ''}{members}]" if _is_valid(members) else re.escape(part[0])
    # Postgres gives a backslash before a letter or digit a meaning.
    return part["text"] if part["text"].isalnum() or part["text"] in " _" else "\\" + part["text"]


def _is_valid(members: str) -> bool:
    """Whether characters and ranges can be a class; a range from `z` to `a` cannot."""
    try:
        re.compile(f"[{members}]")
    except re.error:
        return False
    return True


def kernel_regex(pattern: str) -> str:
    """A regular expression for the kernels that a pattern means: by function name if it has no dot."""
    return glob_regex(pattern, "" if "." in pattern else r"(?:.*\.)?")


def matches_kernel(asked: str, kernel: str) -> bool:
    """Whether a name or pattern means a kernel: its qualified name, or its function name in any module."""
    if asked in {kernel, kernel.rpartition(".")[2]}:
        return True
    return is_glob(asked) and re.search(kernel_regex(asked), kernel) is not None
