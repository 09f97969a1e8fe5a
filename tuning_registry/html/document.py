"""A page as one HTML document: head with its content security policy, navigation, content, footer."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from tuning_registry.html.markup import Child, Markup, element


def render_document(title: str, name: str, views: Sequence[tuple[str, str]], main: Child, footer: Child) -> str:
    """One HTML document. It loads nothing and runs only its own script.

    Args:
        title: Title of the window.
        name: What the page is, for its header.
        views: Name in the navigation and anchor of each view, at least one.
        main: The views.
        footer: Where the page comes from.
    """
    head = element(
        "header",
        element("strong", name),
        element("nav", (element("a", label, href=f"#{anchor}") for label, anchor in views), aria_label="Views"),
        element("button", "◐ Theme", type="button", id="theme"),
    )
    skip = element("a", "Skip to content", href=f"#{views[0][1]}", class_="skip")
    return _document(title, skip, head, element("main", main), element("footer", footer))


def _document(title: str, *body: Child) -> str:
    style, script = _asset("style.css"), _asset("script.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Markup(policy)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", style),
    )
    page = element("html", head, element("body", *body, element("script", script)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _asset(name: str) -> Markup:
    """A file of this package, as it is: it holds no end tag."""
    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
