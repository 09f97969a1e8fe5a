"""Fetching objects before an ingest needs them: each takes a round trip to its store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from tuning_registry.formats.files import read_bytes
from tuning_registry.formats.stores import StorePath

T = TypeVar("T")

_AHEAD: Final = 64  # objects
_AT_ONCE: Final = 16


def fetch_ahead(sources: Iterable[T]) -> Iterator[tuple[T, Callable[[], bytes] | None]]:
    """Each source in order; for an object, with a function that returns its bytes or raises FileError."""
    waiting: deque[tuple[T, Future[bytes] | None]] = deque()
    pool = ThreadPoolExecutor(_AT_ONCE)  # starts no thread before it has work
    try:
        for source in sources:
            waiting.append((source, pool.submit(read_bytes, source) if isinstance(source, StorePath) else None))
            while waiting and (waiting[0][1] is None or len(waiting) > _AHEAD):
                yield _with_result(*waiting.popleft())
        while waiting:
            yield _with_result(*waiting.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _with_result(source: T, future: Future[bytes] | None) -> tuple[T, Callable[[], bytes] | None]:
    return source, None if future is None else future.result
