"""Reading the sources of an ingest into one batch: recordings, Triton caches, and files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.errors import RegistryError, UsageError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.recordings import parse_recording
from tuning_registry.formats.stores import Place
from tuning_registry.formats.triton_cache import TritonCache, read_cache
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.ahead import fetch_ahead
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.sources import JSON, Source
from tuning_registry.operations.ingest.tools import ToolReader
from tuning_registry.operations.ingest.transfer import add_to_batch


class SourceReader:
    """Reads all that can be read.

    Args:
        options: What the user states about the recordings.

    Attributes:
        batch: The recordings and curated choices.
        errors: Why sources were left out.
        unowned_caches: Number of Triton caches of unknown rank.
        tools: The formats of other tools.
    """

    def __init__(self, options: IngestOptions) -> None:
        self.batch = Batch()
        self.errors: list[RegistryError] = []
        self.unowned_caches = 0
        self.tools = ToolReader(options)
        self._options = options
        self._attribution = Attribution(options)
        self._reader = QuickReader()
        self._late: list[Place] = []  # files of timings whose recording comes after them; read again rather than kept
        self._units = 0
        self._take_arch = False  # whether a source may lack its architecture

    def read(self, sources: Iterable[Source]) -> None:
        """Read every source.

        Raises:
            UsageError: An option names one recording, or a source without an architecture, and there is no such one.
        """
        for source, fetched in fetch_ahead(sources):
            try:
                self._read_source(source, fetched)
            except UsageError:
                raise
            except RegistryError as error:
                self.errors.append(error)
        for one, unit in self.tools.units():
            try:
                self._add_tool_recordings(self.tools.read_unit(one, unit))
            except RegistryError as error:
                self.errors.append(error)
        for file in self._late:
            try:
                add_to_batch(self.batch, self._reader.read(file), self._attribution)
            except RegistryError as error:
                self.errors.append(error)
        self._check_options()

    def _read_source(self, source: Source, fetched: Callable[[], bytes] | None) -> None:
        if isinstance(source, TritonCache):
            self._read_cache(source)
            return
        file = ToolFile(source, None if fetched is None else fetched())
        recording = self._read_ours(file)
        if recording is None:
            one = self.tools.format_of(file)
            if one is not None:
                self._add_tool_recordings(self.tools.take(one, file))
                return
            recording = parse_recording(file.data, str(source))  # words the error
        self._units += 1
        self._attribution.note(recording)
        if self._attribution.comes_before_its_owner(recording):
            self._late.append(source)
        else:
            add_to_batch(self.batch, recording, self._attribution)

    def _read_ours(self, file: ToolFile) -> Recording | None:
        """The recording in a file if it is one of ours in the common form."""
        if self._options.format is not None or file.path.suffix != JSON:
            return None
        return self._reader.read_quickly(file.data, str(file.path))

    def _read_cache(self, cache: TritonCache) -> None:
        """Add a Triton cache to the batch."""
        options = self._options
        is_owned = options.rank is not None
        skip = self.errors.append if options.keep_going else None
        self._units += 1
        self._take_arch = True
        recording = read_cache(cache, arch=options.arch, triton=options.triton, votes=is_owned, skip=skip)
        add_to_batch(self.batch, recording, self._attribution, needs_rank=False)
        self.unowned_caches += not is_owned

    def _add_tool_recordings(self, recordings: Iterable[Recording]) -> None:
        self._take_arch = True
        for recording in recordings:
            self._units += 1
            header, is_named = self._attribution.header_of_tool(recording)
            if header.rank is not None:
                self.batch.add(recording, header, is_named=is_named)
                continue
            if recording.votes:
                self.batch.add_curated(recording, header)
            if recording.timings or recording.observations:
                self.batch.add(replace(recording, votes={}), header, is_named=is_named)

    def _check_options(self) -> None:
        if self._options.rank is not None and self._units > 1:
            raise UsageError(f"--rank applies to a single recording, but the paths name {self._units} files or caches")
        if self._options.arch is not None and not self._take_arch:
            raise UsageError(
                "--arch applies to Triton cache folders and files of other tools, and the paths name none; recordings state "
                "their architectures"
            )
