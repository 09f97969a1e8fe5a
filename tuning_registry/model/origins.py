"""Where a choice comes from: a file of another tool."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tuning_registry.errors import FormatError
from tuning_registry.model.names import MAX_RUN_BYTES, check_text


class Dimension(enum.StrEnum):
    """What files of other tools are compared by."""

    SOURCE = "source"  # the project that ships them
    VERSION = "version"  # the version of the project
    TRITON = "triton"  # the Triton version that they are for


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The file of another tool that a choice was read from. An empty value means that nothing states it.

    Attributes:
        tool: Name of the file's format, as `registry formats` lists it.
        project: Distribution that ships the file ("vllm").
        version: Version of that distribution.
        file: Its name, which is the same on every machine. Empty for the recording of a rank.
    """

    tool: str
    project: str = ""
    version: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            FormatError: The tool has no name, or a value is too long or not text.
        """
        for name in ("tool", "project", "version", "file"):
            text = check_text(getattr(self, name), (name,))
            if len(text.encode()) > MAX_RUN_BYTES:
                raise FormatError(f"a text of {len(text.encode())} bytes; expected at most {MAX_RUN_BYTES}", (name,))
        if not self.tool:
            raise FormatError("an empty name", ("tool",))
