"""What MkDocs calls while it builds the site: generated parts go in, and nothing may load from the network."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
from docs._build import generate  # noqa: E402  # MkDocs loads this file by its path

_LOG = logging.getLogger("mkdocs.hooks.site")
# Resources that a browser fetches by itself; links, which a reader follows, are fine.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?(https?:)?//|<link(?![^>]+rel=["']?canonical)[^>]+href=["']?(https?:)?//"""
    r"""|@import\s+(?:url\()?["']?https?:|url\(["']?https?:"""
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the generated parts into a page."""
    return generate.fill(markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Warn, which fails a strict build, about everything that a page would fetch from the network."""
    for file in sorted(Path(config.site_dir).rglob("*")):
        if file.suffix in {".html", ".css"} and (found := _FETCHED.search(file.read_text())):
            _LOG.warning("%s loads something from the network: %s", file, found[0])
