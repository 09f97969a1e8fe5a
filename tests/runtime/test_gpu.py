"""On a GPU, with real kernels: record by several processes, merge, pin in new ones; capture, hooks.

Needs only the standard library, torch, Triton and pytest.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from tuning_registry import count_votes, disagreements, merge_records, write  # noqa: E402  # what needs torch waits for it
from tuning_registry.errors import LaunchError  # noqa: E402  # what needs torch waits for it
from tuning_registry.formats.recordings import read_recording  # noqa: E402  # what needs torch waits for it
from tuning_registry.model.canonical import config_text  # noqa: E402  # what needs torch waits for it
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install  # noqa: E402  # what needs torch waits for it

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")]

if torch.cuda.is_available():
    from tests.runtime import gpu_kernels

ROOT = Path(__file__).parents[2]
KERNEL = "tests.runtime.gpu_kernels.row_sum"
RANKS = 3


def here() -> Any:
    major, minor = torch.cuda.get_device_capability()
    return f"sm{major}{minor}"


def worker(folder: Path, name: Any, **environment: Any) -> Any:
    """A process with an empty Triton cache that runs the kernels; not waited for."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TRITON_CACHE_DIR": str(folder / f"cache-{name}"),
        **environment,
    }
    return subprocess.Popen(
        [sys.executable, "-c", "from tests.runtime import gpu_kernels; gpu_kernels.work()"],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )


def answers(processes: Any) -> Any:
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [json.loads(output) for output in outputs]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folder, answers of the recording ranks (all at once on one GPU, so that they disagree), and the table."""
    folder = tmp_path_factory.mktemp("gpu")
    ranks = answers([
        worker(folder, f"r{rank}", TUNING_REGISTRY_RECORD_PATH=str(folder / "rec"), TUNING_REGISTRY_RUN="gpu-test", RANK=str(rank),
               WORLD_SIZE=str(RANKS), LOCAL_RANK="0")
        for rank in range(RANKS)
    ])  # fmt: skip
    files = sorted(folder.glob("rec.gpu-test.*.json"))
    kernels = merge_records(files)[here()]
    write(here(), kernels, folder / f"{here()}.json", triton=triton.__version__)
    return folder, ranks, files


def test_every_rank_records_winners_and_all_timings(recorded: Any) -> None:
    _, ranks, files = recorded
    assert len(files) == RANKS
    properties = torch.cuda.get_device_properties(0)
    for file, answer in zip(files, ranks, strict=True):
        recording = read_recording(file)
        assert (answer["mode"], answer["faults"]) == ("record", {})
        assert answer["timed"] == 8 * len(gpu_kernels.SIZES)
        assert len(recording.votes[here()][KERNEL]) == len(gpu_kernels.SIZES)
        assert all(len(timings) == 8 for timings in recording.timings[here()][KERNEL].values())
        header = recording.header
        assert (header.device_arch, header.device_name) == (here(), properties.name)
        assert (header.multiprocessor_count, header.triton) == (properties.multi_processor_count, triton.__version__)


def test_new_processes_pin_every_kernel_time_nothing_and_give_equal_results(recorded: Any) -> None:
    folder, _, files = recorded
    pinned = answers([
        worker(folder, f"p{rank}", TUNING_REGISTRY_MODE="pinned", TUNING_REGISTRY_TABLE_PATH=str(folder), TUNING_REGISTRY_ON_MISS="error")
        for rank in range(2)
    ])  # fmt: skip
    merged = merge_records(files)[here()][KERNEL]
    for answer in pinned:
        assert (answer["timed"], answer["misses"], answer["faults"]) == (0, {}, {})
        assert {source for *_, source in answer["choices"]} == {"table"}
        assert {key: json.loads(config) for _, _, key, config, _ in answer["choices"]} == merged
        assert answer["sums"] == pinned[0]["sums"]
    assert pinned[0]["compiled"] <= len(gpu_kernels.SIZES)  # only what was chosen, where autotuning compiles all
    assert len(disagreements(count_votes(files))) <= len(merged)


def test_pinning_beats_tritons_disk_cache_and_an_echo_never_votes(recorded: Any) -> None:
    folder, _, _ = recorded
    if not hasattr(triton.runtime.Autotuner, "check_disk_cache"):
        pytest.skip("this Triton has no result cache on disk")
    cached = {
        "TRITON_CACHE_AUTOTUNING": "1",
        "TUNING_REGISTRY_RECORD_PATH": str(folder / "echo"),
        "TUNING_REGISTRY_RUN": "echo",
    }
    first, second = (answers([worker(folder, "echo", **cached)])[0] for _ in range(2))
    assert {source for *_, source in first["choices"]} == {"timed"}
    assert {source for *_, source in second["choices"]} == {"echo"}
    assert second["timed"] == 0
    recordings = [
        read_recording(file) for file in sorted(folder.glob("echo.echo*.json"), key=lambda file: file.stat().st_mtime)
    ]
    assert [sum(map(len, r.votes.get(here(), {}).values())) for r in recordings] == [len(gpu_kernels.SIZES), 0]
    assert {o.reason for o in recordings[1].observations[here()][KERNEL].values()} == {"echo of Triton's disk cache"}
    (pinned,) = answers(
        [
            worker(
                folder,
                "echo",
                TRITON_CACHE_AUTOTUNING="1",
                TUNING_REGISTRY_MODE="pinned",
                TUNING_REGISTRY_TABLE_PATH=str(folder),
            )
        ]
    )
    assert ({source for *_, source in pinned["choices"]}, pinned["timed"]) == ({"table"}, 0)


def test_an_adopted_cache_folder_pins_the_job_that_filled_it(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="adopting a cache takes the registry's own half")
    if not hasattr(triton.runtime.Autotuner, "check_disk_cache"):
        pytest.skip("this Triton has no result cache on disk")
    from tuning_registry.db.store import Store
    from tuning_registry.db.url import parse_url
    from tuning_registry.model.selection import Selection
    from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
    from tuning_registry.operations.tables.export import ExportOptions, export_table

    (stock,) = answers([worker(tmp_path, "stock", TRITON_CACHE_AUTOTUNING="1")])  # knows nothing of us
    store = Store(parse_url(f"sqlite:///{tmp_path}/r.db"))
    report = ingest(store, tmp_path / "cache-stock", IngestOptions(run="adopted", rank=0))
    assert (report.votes, report.timings) == (len(gpu_kernels.SIZES), 8 * len(gpu_kernels.SIZES))
    for policy in ("majority", "fastest"):
        table = tmp_path / policy / f"{here()}.json"
        table.parent.mkdir()
        made = export_table(store, Selection(arch=here()), ExportOptions(policy=policy))
        assert made.payload["triton"] == triton.__version__
        table.write_bytes(made.data)
        pinned = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_ON_MISS": "error"}
        (answer,) = answers([worker(tmp_path, policy, TUNING_REGISTRY_TABLE_PATH=str(table.parent), **pinned)])
        assert (answer["timed"], answer["misses"], answer["faults"]) == (0, {}, {})
        assert {source for *_, source in answer["choices"]} == {"table"}
        if policy == "majority":  # of one rank: what it chose
            assert answer["sums"] == stock["sums"]
        chosen = {key.split("|")[0]: config for _, _, key, config, _ in answer["choices"]}
        lowest = fastest(tmp_path / "cache-stock")
        assert {n: config in lowest[n] for n, config in chosen.items()} == dict.fromkeys(lowest, True)


def fastest(cache: Path) -> dict[str, set[str]]:
    """The configs at the lowest median of each n in Triton's cache; of several, Triton and we may take another one."""
    found = {}
    for file in cache.glob("*/row_sum.autotune.json"):
        result = json.loads(file.read_text())
        lowest = min(times[0] for _, times in result["configs_timings"])
        configs = {config_text(config) for config, times in result["configs_timings"] if times[0] == lowest}
        found[f"n={result['key'][0]}"] = configs
    return found


def pin_here(tmp_path: Path, kernel: Any, config: Any, key: Any = "*") -> None:
    write(here(), {kernel: {key: config}}, tmp_path / f"{here()}.json")
    install(AutotunePolicy(mode="pinned", table_path=tmp_path))


def test_a_pinned_kernel_may_be_first_launched_inside_a_graph_capture(tmp_path: Path) -> None:
    pin_here(
        tmp_path, KERNEL, {"kwargs": {"BLOCK": 128}, "num_warps": 4, "num_stages": gpu_kernels.configs()[0].num_stages}
    )
    x, out = torch.ones(8, 333, device="cuda"), torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # beginning a capture allocates by itself: PyTorch's own state
        before = torch.cuda.memory_allocated()
        gpu_kernels.row_sum[(8,)](x, out, 333, x.stride(0))
        after = torch.cuda.memory_allocated()
    assert after == before
    x.fill_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert out.tolist() == [666.0] * 8
    assert coverage_report().misses == ()


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_timing_inside_a_graph_capture_is_refused_by_name() -> None:
    install(AutotunePolicy(mode="auto"))
    x, out = torch.ones(8, 334, device="cuda"), torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with (
        pytest.raises(LaunchError, match=r"row_sum.*n=334.*Launch it once before the capture"),
        torch.cuda.graph(graph),
    ):
        gpu_kernels.row_sum[(8,)](x, out, 334, x.stride(0))
    torch.cuda.synchronize()
    gpu_kernels.row_sum[(8,)](x, out, 334, x.stride(0))
    assert out.tolist() == [334.0] * 8


def test_the_hook_of_a_pinned_candidate_clears_once_a_launch(tmp_path: Path) -> None:
    stages = gpu_kernels.split_sum.configs[1].num_stages
    pin_here(tmp_path, "split_sum", {"kwargs": {"BLOCK": 64, "SPLIT": 4}, "num_warps": 4, "num_stages": stages})
    x, out = torch.ones(4096, device="cuda"), torch.full((1,), 5.0, device="cuda")
    gpu_kernels.zeroed.clear()
    for _ in range(3):
        gpu_kernels.split_sum[lambda meta: (meta["SPLIT"],)](x, out, 4096)
    assert (out.item(), len(gpu_kernels.zeroed)) == (4096.0, 3)
    assert gpu_kernels.split_sum.best_config is gpu_kernels.split_sum.configs[1]


def test_threads_launch_one_pinned_kernel_with_shapes_of_their_own(tmp_path: Path) -> None:
    install(AutotunePolicy(mode="pinned", table_path=tmp_path))

    def work(n: Any) -> Any:
        with torch.cuda.stream(torch.cuda.Stream()):
            x, out = torch.ones(4, n, device="cuda"), torch.zeros(4, device="cuda")
            for _ in range(200):
                gpu_kernels.row_sum[(4,)](x, out, n, x.stride(0))
            torch.cuda.current_stream().synchronize()
            return out.tolist()

    sizes = (100, 200, 300, 400)
    with ThreadPoolExecutor(len(sizes)) as threads:
        sums = list(threads.map(work, sizes))
    assert sums == [[float(n)] * 4 for n in sizes]
    assert coverage_report().faults == {}


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # PyTorch uses it itself
def test_a_kernel_inside_torch_compile_is_pinned(tmp_path: Path) -> None:
    install(AutotunePolicy(mode="pinned", table_path=tmp_path))

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        out = torch.empty(x.shape[0], device=x.device)
        gpu_kernels.row_sum[(x.shape[0],)](x, out, x.shape[1], x.stride(0))
        return out

    assert step(torch.ones(4, 64, device="cuda")).tolist() == [64.0] * 4
    assert coverage_report().reached[KERNEL] == "pinned"
    assert coverage_report().not_covered == ()
    assert [(choice.kernel, choice.source) for choice in choice_log()] == [(KERNEL, "min_cost")]


def test_arch_is_found_at_the_first_launch() -> None:
    install(AutotunePolicy(mode="pinned"))
    gpu_kernels.run_row_sum(4, 77)
    assert choice_log()[0].arch == here()


NCCL = """
import os, torch, torch.distributed as dist
from tests.runtime import gpu_kernels
from tuning_registry.runtime import install, verify_choices
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
answers = []
for chaos in (False, True):
    install({"mode": "pinned", "chaos": chaos})
    for rows, n in gpu_kernels.SIZES:
        gpu_kernels.run_row_sum(rows, n)
    result = verify_choices()
    answers.append((bool(result), result.ranks, result.compared, bool(verify_choices())))
dist.destroy_process_group()
size = int(os.environ["WORLD_SIZE"])
assert answers == [(True, size, 3 if size > 1 else 0, True), (size == 1, size, 3 if size > 1 else 0, size == 1)], answers
"""


def test_agreement_over_nccl() -> None:
    size = min(2, torch.cuda.device_count())
    processes = [
        subprocess.Popen([sys.executable, "-c", NCCL], cwd=ROOT,
                         env={**os.environ, "PYTHONPATH": str(ROOT), "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)})
        for rank in range(size)
    ]  # fmt: skip
    assert [process.wait(timeout=300) for process in processes] == [0] * size
