"""A selection's votes and timings, grouped by shape; each is read at most once per transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.model.audits import AuditedEntry, packed_configs, unpack_results
from tuning_registry.model.packed_times import unpack_ids
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.medians import Medians
from tuning_registry.operations.election.timings import Measured, Sample, Timings
from tuning_registry.rules.evidence import ByConfig, Columns, lowest, median_over_ranks

T = TypeVar("T")
# Arch, kernel, lookup key, and the version group: Triton, package, its version, device. The spellings of an entry have
# one shape in every version group, and votes of two shapes never mix.
Shape = tuple[str, str, str, str, str, str, str]


def shape_of(row: Row) -> Shape:
    """The shape of a row of `queries.votes.choices`."""
    group = (row["triton"], row["package"], row["version"], row["device"])
    return (row["arch"], row["kernel"], row["lookup_key"], *group)


def recording_ids(text: str) -> list[int]:
    """The ids of a row of `queries.votes.who_voted`. As a JSON array, they are read in a fifth of the time."""
    import msgspec  # noqa: PLC0415 - not loaded for exports by votes alone

    return msgspec.json.decode(f"[{text}]", type=list[int])


def by_environment(items: Sequence[T], environments: Sequence[int | None]) -> dict[int, Sequence[T]]:
    """Items by the environment of each, without those whose recording does not count. Usually all are from one."""
    found = set(environments)
    if len(found) == 1:
        return {one: items for one in found if one is not None}
    return {
        one: [item for item, its in zip(items, environments, strict=True) if its == one]
        for one in found if one is not None
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The timings of one shape, by canonical text.

    Attributes:
        times: Those of all recordings that count, or of a sample.
        more: The same object, or with further recordings if it is a sample.
        medians: The median over ranks of every config's median in ms, if `times` has only some of the configs.
        sample: The sample.
        compacted: Whether some times have no percentiles, since a run was compacted.
    """

    times: ByConfig
    more: ByConfig
    medians: Mapping[str, float] | None
    sample: Sample | None
    compacted: bool


class VotesByShape:
    """The votes and timings of a selection. Data is read when it is first needed.

    Args:
        reading: The transaction.
        selection: Which votes count.
    """

    def __init__(self, reading: Reading, selection: Selection) -> None:
        self.reading = reading
        self.selection = selection
        self._texts: dict[int, str] = {}  # configs whose texts were asked for
        self.audited_keys: dict[Shape, str] = {}  # of `audits`: the smallest spelling of the key
        self._medians: dict[Shape, Mapping[str, float]] = {}
        self._recordings: dict[frozenset[int], set[int]] = {}  # by environments
        self.timed = Timings(reading, selection)

    @cached_property
    def environments(self) -> dict[int, int]:
        """The environment of each recording that counts."""
        return dict(self.reading.bulk(queries.selected.counting_recordings(self.selection)))

    @cached_property
    def environment_ids(self) -> list[int]:
        """The environments of the recordings that count."""
        return self.reading.scalars(queries.selected.environments_that_count(self.selection))

    @cached_property
    def choices(self) -> list[Row]:
        """Every config of every entry, the winner first: rows of `queries.votes.choices`."""
        return self.reading.rows(queries.votes.choices(self.selection, self.environment_ids))

    def winners(self) -> list[Row]:
        """The winner of every entry by votes alone: rows of `queries.votes.winners`."""
        return self.reading.rows(queries.votes.winners(self.selection, self.environment_ids))

    @cached_property
    def _keys(self) -> dict[int, tuple[str, str, str, str, str]]:
        """Arch, kernel, lookup key, top-level module and device of each entry."""
        return {row[0]: tuple(row[1:]) for row in self.reading.bulk(queries.entries.shapes(self.selection))}

    @cached_property
    def spellings(self) -> dict[tuple[str, str, str], list[int]]:
        """Ids of the entries, by arch, kernel and lookup key."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for entry_id, key in self._keys.items():
            found.setdefault(key[:3], []).append(entry_id)
        return found

    @cached_property
    def _groups(self) -> tuple[dict[int, str], dict[tuple[int, Any], tuple[str, str]]]:
        """Triton by environment; the owning package and its version by environment and module."""
        triton: dict[int, str] = {}
        owners: dict[tuple[int, Any], tuple[str, str]] = {}
        for environment, version, module, package, owner in self.reading.bulk(queries.environments.version_groups()):
            triton[environment] = version
            owners[environment, module] = (package, owner)
        return triton, owners

    def shape_in(self, entry_id: int, environment_id: int) -> Shape:
        """The shape of an entry as recorded in an environment."""
        return self.shape_at(*self._keys[entry_id], environment_id)

    def shape_at(self, arch: str, kernel: str, key: str, module: str, device: str, environment_id: int) -> Shape:
        """The shape of a lookup key of a kernel in a top-level module, as recorded in an environment."""
        triton, owners = self._groups
        package, version = owners.get((environment_id, module), ("", ""))
        return (arch, kernel, key, triton[environment_id], package, version, device)

    def entry_ids(self, shapes: Iterable[Shape]) -> list[int]:
        """Ids of the entries that are spellings of these shapes, sorted."""
        keys = {shape[:3] for shape in shapes}
        return sorted(entry_id for key in keys for entry_id in self.spellings.get(key, ()))

    def _counts(self, shape: Shape) -> dict[int, AbstractSet[int]]:
        """The spellings of a shape, with the recordings that count and were made in its version group."""
        return {
            entry: self._counting_in(
                frozenset(one for one in self.environment_ids if self.shape_in(entry, one) == shape)
            )
            for entry in self.spellings.get(shape[:3], [])
        }

    def was_timed(self, shape: Shape) -> bool:
        """Whether any recording that counts has timed a shape."""
        return bool(self.timed.numbers(self._counts(shape)))

    def timings_by_config(self, shape: Shape, *, percentiles: bool = True) -> ByConfig:
        """The timings of one shape, by canonical text: `{text: {recording id: (median, p20, p80) in ms}}`.

        If very many recordings have timed the shape, those of a sample (`timed.sample`).

        Args:
            shape: The shape.
            percentiles: Whether the percentiles are needed; they may be NaN otherwise.
        """
        return self._by_text(self.timed.measured(self._counts(shape), percentiles=percentiles))

    def every_timing(self, shape: Shape) -> Iterator[tuple[str, int, Times | None]]:
        """Config text, recording and times of each timing of one shape, None if it failed; never a sample."""
        for config, recording, times in self.timed.every(self._counts(shape)):
            text = self._texts.get(config)
            yield self.config_texts([config])[config] if text is None else text, recording, times

    def timings_with(
        self, shape: Shape, groups: Mapping[int, Sequence[int]], config_ids: Collection[int] | None = None
    ) -> Timed:
        """The timings of one shape, and the same with those of further recordings.

        Args:
            shape: The shape.
            groups: Recordings by config id. If the others are a sample, the timings of these configs are also read for
                them; of each group, up to 256.
            config_ids: The configs whose times are needed; the fastest is added. By default all.
        """
        columns = None if config_ids is None else self._columns(shape)
        medians = None
        if config_ids is not None and columns is not None and columns.is_by_recording:
            medians = self._medians[shape]
            ids = dict(zip(medians, columns.columns, strict=True))
            config_ids = {*config_ids, *(ids[text] for text in [lowest(medians)] if text is not None)}
        else:
            config_ids = None
        measured, more, sample = self.timed.measured_with(self._counts(shape), groups, config_ids)
        times = self._by_text(measured)
        return Timed(
            times=times,
            more=times if more is measured else self._by_text(more),
            medians=medians,
            sample=sample,
            compacted=self.timed.compacted,
        )

    def _by_text(self, measured: Measured) -> ByConfig:
        texts = self.config_texts(list(measured))
        return {texts[config]: by_rank for config, by_rank in measured.items()}

    def timed_by(self, shape: Shape) -> dict[str, int]:
        """How many recordings have timed each config of one shape, by canonical text."""
        numbers = self.timed.numbers(self._counts(shape))
        texts = self.config_texts(list(numbers))
        return {texts[config]: number for config, number in numbers.items()}

    def medians(self, shape: Shape) -> Mapping[str, float]:
        """The median over ranks of each config's median in ms, by canonical text; infinite if it failed on most.

        As `rules.evidence.median_of_medians` of `timings_by_config`, in a fifth of the time.
        """
        if shape not in self._medians:
            self._columns(shape)
        return self._medians[shape]

    def median_columns(self, shape: Shape) -> Columns | None:
        """Each config's medians in ms, the ranks in the same order; None if a rank has several for one config.

        Infinite if the config failed or was not timed. As the medians of `timings_by_config`, in a fifth of the time.
        """
        found = self._columns(shape)
        return dict(zip(self._medians[shape], found.columns.values(), strict=True)) if found.is_by_recording else None

    def _columns(self, shape: Shape) -> Medians:
        """The medians of one shape; notes those over ranks, which may be asked for again."""
        found = self.timed.medians(self._counts(shape))
        texts = self.config_texts(list(found.columns))
        self._medians[shape] = {
            texts[config]: median_over_ranks(column, found.timed[config]) for config, column in found.columns.items()
        }
        return found

    def _counting_in(self, environments: frozenset[int]) -> set[int]:
        """The recordings that count and were made in one of these environments."""
        if environments not in self._recordings:
            self._recordings[environments] = {one for one, made in self.environments.items() if made in environments}
        return self._recordings[environments]

    def config_texts(self, config_ids: Sequence[int]) -> dict[int, str]:
        """Canonical texts by config id; includes those that were asked for before."""
        unknown = [config for config in config_ids if config not in self._texts]
        for row in self.reading.chunked(queries.entries.config_texts, unknown):
            self._texts[row["id"]] = row["text"]
        return self._texts

    @cached_property
    def audits(self) -> dict[Shape, dict[int, AuditedEntry]]:
        """The audits of each shape, by recording; equal ones are the same object."""
        rows = list(self.reading.bulk(queries.audits.of_recordings(self.selection)))
        blocks = self._blocks(sorted({block for _, _, block, _ in rows}))
        found: dict[Shape, dict[int, AuditedEntry]] = {}
        for entry, recording, block, key in rows:
            shape = self.shape_in(entry, self.environments[recording])
            found.setdefault(shape, {})[recording] = blocks[block]
            self.audited_keys[shape] = min(key, self.audited_keys.get(shape, key))
        return found

    def _blocks(self, block_ids: Sequence[int]) -> dict[int, AuditedEntry]:
        rows = list(self.reading.chunked(queries.audits.blocks, block_ids))
        texts = self.config_texts(sorted({config for row in rows for config in packed_configs(row["results"])}))
        return {
            row["id"]: AuditedEntry(
                skipped=row["skipped"],
                inputs=row["inputs"],
                is_seeded=row["is_seeded"],
                candidates=unpack_results(row["results"], texts),
            )
            for row in rows
        }

    @cached_property
    def stale(self) -> dict[Shape, int]:
        """How many recordings of each stale shape chose from other candidates than its newest recording.

        The newest recording is the last one ingested among those that count and state from which candidates the
        entry was chosen. Recordings that do not state it are neither old nor new.
        """
        has_shares = bool(self.reading.scalars(queries.observations.of_shares(self.selection)))
        query = queries.votes.candidate_set_tally(self.selection, self.environment_ids, has_shares=has_shares)
        sets: dict[Shape, dict[str, tuple[int, int]]] = {}  # fingerprint -> newest recording, how many
        for row in self.reading.rows(query):
            known = sets.setdefault(self.shape_in(row["entry_id"], row["environment_id"]), {})
            newest, count = known.get(row["fingerprint"], (0, 0))
            known[row["fingerprint"]] = (max(newest, row["newest"]), count + row["n"])
        for shape, fingerprint, recordings in self._sets_in_blocks():
            known = sets.setdefault(shape, {})
            newest, count = known.get(fingerprint, (0, 0))
            known[fingerprint] = (max(newest, *recordings), count + len(recordings))
        older = {shape: sum(n for _, n in known.values()) - max(known.values())[1] for shape, known in sets.items()}
        return {shape: count for shape, count in older.items() if count}

    def _sets_in_blocks(self) -> Iterator[tuple[Shape, str, Sequence[int]]]:
        """Shape, fingerprint and recordings of the candidate sets in blocks, as far as they count."""
        found: dict[tuple[int, int, bytes], Mapping[int, Sequence[int]]] = {}
        for entry, fingerprint, first, count, packed in self.reading.bulk(queries.timings.set_blocks_on(None)):
            if entry not in self._keys:
                continue  # filtered out
            key = (first, count, packed)
            if key not in found:
                ids = unpack_ids(first, count, packed)
                found[key] = by_environment(ids, list(map(self.environments.get, ids)))
            for environment, recordings in found[key].items():
                yield self.shape_in(entry, environment), fingerprint, recordings
