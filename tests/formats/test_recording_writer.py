"""The writer is the inverse of the strict reader."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.formats.recording_writer import recording_bytes
from tuning_registry.formats.recordings import checked, parse_recording
from tuning_registry.model.canonical import config_text
from tuning_registry.model.names import is_known_arch, normal_arch
from tuning_registry.model.records import Hardware, Header, Observation, Recording, TimedCandidates, Timing

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
name = text.filter(bool)
arch = st.one_of(
    st.sampled_from(["sm90", "sm103", "gfx942", "unknown"]),
    name.filter(lambda a: normal_arch(a) == a and not is_known_arch(a)).map("Ascend".__add__),
)
version = name.filter(lambda text: text != "none")
distribution = st.sampled_from(["fla-core", "mamba-ssm", "torch"])
value = st.one_of(st.integers(), st.booleans(), st.none(), text, st.floats(allow_nan=False, allow_infinity=False))
config = st.fixed_dictionaries(
    {
        "kwargs": st.dictionaries(text, value, max_size=3),
        "num_warps": st.none() | st.integers(1, 64),
        "num_stages": st.none() | st.integers(0, 64),
    },
    optional={
        "num_ctas": st.integers(1, 32),
        "maxnreg": st.none() | st.integers(1, 1024),
        "ir_override": st.none() | text,
    },
).map(config_text)
milliseconds = st.lists(st.floats(1e-6, 1e9), min_size=3, max_size=3).map(sorted)
timing = st.one_of(
    st.builds(lambda text, three: Timing(text, three[1], three[0], three[2]), config, milliseconds),
    st.builds(Timing, config, st.none(), st.none(), st.none()),
)


def by_entry(values: Any) -> Any:
    return st.dictionaries(
        arch, st.dictionaries(name, st.dictionaries(text, values, max_size=2), max_size=2), max_size=2
    )


headers = st.builds(
    Header, run=name, rank=st.integers(0, 7), world_size=st.none() | st.integers(8, 2**31 - 1), host=st.none() | text,
    device_name=st.none() | text, device_arch=st.none() | text, multiprocessor_count=st.none() | st.integers(0, 999),
    triton=st.none() | version, packages=st.dictionaries(distribution, version, max_size=2), modules=st.dictionaries(text, text, max_size=2),
    source=st.none() | text,
)  # fmt: skip


count = st.none() | st.integers(0, 2**31 - 1)
digest = st.binary(min_size=32, max_size=32).map(bytes.hex)
# What version 2 states besides, all of it or none: a header without an id is written in version 1.
since_2 = st.fixed_dictionaries(
    {
        "id": st.binary(min_size=16, max_size=16).map(bytes.hex),
        "attempt": count,
        "local_rank": count,
        "device_uuid": st.none() | text,
        "hardware": st.builds(Hardware, driver=st.none() | text, cuda=st.none() | text, ptxas=st.none() | text,
                              sm_clock_mhz=count, memory_clock_mhz=count, power_limit_w=count),
        "sources": st.dictionaries(name, digest, max_size=2),
        "extra": st.dictionaries(text, st.recursive(value, st.lists, max_leaves=3), max_size=2),
    }
)  # fmt: skip
headers = st.builds(lambda header, more: replace(header, **more), headers, st.just({}) | since_2)


@given(headers, by_entry(config), by_entry(st.builds(Observation, st.none() | config, text)),
       by_entry(st.lists(timing, max_size=3, unique_by=lambda t: t.config).map(TimedCandidates.from_timings)), by_entry(text))  # fmt: skip
def test_what_is_written_is_read_back(header: Any, votes: Any, observations: Any, timings: Any, sets: Any) -> None:
    for seen, kernels in observations.items():
        for kernel, keys in kernels.items():
            for key in keys.keys() & votes.get(seen, {}).get(kernel, {}).keys():
                del votes[seen][kernel][key]
    recording = Recording("file", header, votes, observations, timings, sets)
    data = recording_bytes(recording)
    assert parse_recording(data, "file") == checked(recording)
    assert data.endswith(b"}\n")
    assert json.dumps(json.loads(data)) + "\n" == data.decode("ascii")
