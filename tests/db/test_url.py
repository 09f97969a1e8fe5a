"""Database URLs as messages show them."""

from __future__ import annotations

import pytest

from tuning_registry.db.url import parse_url, shown_url


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            "postgres://u:p%40s%2F@h:5/d?password=x&sslmode=require",
            "postgresql://u:***@h:5/d?password=***&sslmode=require",
        ),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql://u:pw@/d?host=/tmp", "postgresql://u:***@/d?host=%2Ftmp"),
        ("postgresql:///d?pasword=a%40b", "postgresql:///d?pasword=***"),
        ("/a/b.db", "sqlite:////a/b.db"),
        (":memory:", "an in-memory database"),
    ],
)
def test_a_url_is_shown_without_its_secrets(given: str, shown: str) -> None:
    assert shown_url(parse_url(given)) == shown
