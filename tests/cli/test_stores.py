"""Commands that read recordings and tables from an S3 server, and write to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import H200, Cli, run_registry
from tests.helpers import error_of, on_sqlite
from tests.object_store import Bucket
from tuning_registry import Registry, load

pytestmark = on_sqlite


def put_recordings(bucket: Bucket) -> None:
    for file in H200.glob("*.rank[0-3].json"):
        bucket.put(f"run/{file.name}", file.read_bytes())


def test_recordings_to_table(bucket: Bucket, cli: Cli, tmp_path: Path) -> None:
    """From a bucket of recordings to a table in it has the bytes of the same way over local files."""
    put_recordings(bucket)
    assert "4 recordings, 180 votes" in cli("ingest", f"{bucket.url}/run/rec.*.json", "--run", "july").stderr
    assert "1,744 timings" in cli("ingest", f"{bucket.url}/run/", "--run", "july").stderr
    table, local = f"{bucket.url}/tables/sm90.json", tmp_path / "sm90.json"
    assert f"wrote 45 entries to {table}" in cli("export", "--arch", "sm90", "-o", table).stderr
    cli("export", "--arch", "sm90", "-o", local)
    assert bucket.get("tables/sm90.json") == local.read_bytes()
    assert table in cli("exports").stdout
    assert f"{table}: OK" in cli("check", table).stderr
    assert f"{table}: OK: 45 entries" in cli("validate", table).stderr
    assert "no differences" in cli("diff", table, local).stderr
    assert cli("export", "--arch", "sm90", "--max-regression", 5, "-o", table).exit_code == 0
    kernel, keys = next(iter(json.loads(local.read_bytes())["kernels"].items()))
    explained = cli("explain", "--kernel", kernel, "--arch", "sm90", "--key", next(iter(keys)), "--table", table)
    assert explained.exit_code == 0, explained.stderr


def test_run_is_named_after_its_folder_in_the_store(bucket: Bucket, cli: Cli) -> None:
    put_recordings(bucket)
    first, again = (cli("ingest", f"{bucket.url}/run/rec.*").stderr for _ in range(2))
    assert "run: rec@" in first
    assert "0 recordings" in again or "unchanged" in again, again


def test_page_of_recordings_in_a_store(bucket: Bucket, cli: Cli) -> None:
    put_recordings(bucket)
    said = cli("report", f"{bucket.url}/run", "--html", f"{bucket.url}/report.html").stderr
    assert f"wrote {bucket.url}/report.html: 45 entries of 4 ranks" in said
    assert bucket.get("report.html").startswith(b"<!doctype html>")


def test_python_interface(bucket: Bucket, database: str) -> None:
    put_recordings(bucket)
    registry = Registry(database)
    registry.ingest([f"{bucket.url}/run/rec.rank0.json", f"{bucket.url}/run/rec.rank1.json"], run="july")
    registry.export("sm90").write(f"{bucket.url}/tables/sm90.json")
    assert len(load("sm90", f"{bucket.url}/tables").texts) == 23
    assert not registry.diff(f"{bucket.url}/tables/sm90.json")


def test_compile_data_follows_its_table(bucket: Bucket, cli: Cli) -> None:
    """It is written next to the table, and that of the table before is deleted."""
    bucket.put("tables/sm90.json", b'{"arch": "sm90", "kernels": {}}')
    old = json.loads(cli("validate", f"{bucket.url}/tables/sm90.json", "--format", "json").stdout)
    assert old == []
    put_recordings(bucket)
    cli("ingest", f"{bucket.url}/run")
    cli("export", "--arch", "sm90", "-o", f"{bucket.url}/tables/sm90.json")
    assert [key for key in bucket.list_keys() if key.startswith("tables/")] == ["tables/sm90.json"]
    said = error_of(cli("warm", f"{bucket.url}/tables"))
    assert f"{bucket.url}/tables/sm90.json: its compile file sm90." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("check s3://{}/none.json", "s3://{}/none.json: cannot be read: it does not exist"),
        (
            "check s3://nobody/none.json",
            "s3://nobody/none.json: cannot be read: there is no bucket nobody; check its name",
        ),
        ("ingest s3://{}/none/*.json", "s3://{}/none/*.json: no file matches"),
        (
            "ingest s3://nobody/*.json",
            "s3://nobody/*.json: cannot be listed: there is no bucket nobody; check its name",
        ),
        ("ingest s3://{}/none/", "s3://{}/none: cannot be read: it does not exist"),
        (
            "ingest s3:/{}/none/",
            "s3:/{}/none/: expected s3://BUCKET/KEY; for a local file of this name, write ./s3:/{}/",
        ),
        ("ingest s3://", "s3://: the name of the bucket is missing; expected s3://BUCKET/KEY"),
        ("ingest s3://me:secret@bucket/x", "a s3:// URL contains a password; remove it."),
        ("ingest https://me:sec/ret@host/x", "a https:// URL contains a password; remove it."),
        ("ingest https://host/x.json?sig=secret", "a https:// URL has a query, which may hold a signature"),
        ("ingest simplecache::s3://me:secret@bucket/x", "chained URLs (zip://...::s3://...) are not supported"),
        ("ingest zip://a::s3://me:secret@bucket/x", "chained URLs (zip://...::s3://...) are not supported"),
        ("ingest file:///tmp/%00", "file:///tmp/%00: expected file:///PATH"),
        ("ingest s3://arn:aws:s3:us-east-1:1:accesspoint/a:b@c.json", "cannot be read"),
        ("ingest http://127.0.0.1:1/a@b.json", "http://127.0.0.1:1/a@b.json: cannot be read"),
        (
            "ingest sftp://127.0.0.1/x.json",
            "needs the package paramiko, which is not installed; run: pip install paramiko",
        ),
        ("ingest postgresql://host/x", "expected a file, found the URL of a postgresql database"),
        (
            "ingest gs://bucket/x",
            "gs:// needs the package gcsfs, which is not installed; run: pip install 'tuning-registry[gcs]'",
        ),
        ("ingest abfs://bucket/x.json", "run: pip install 'tuning-registry[azure]'"),
        (
            "ingest nosuch://bucket/x",
            "fsspec does not support nosuch://; expected a store such as s3://, gs:// or abfs://",
        ),
        ("ingest s3://{}/rec.autotune.json", "Triton caches are read from local folders only"),
    ],
)
def test_one_line_says_what_is_wrong(words: str, said: str, bucket: Bucket, cli: Cli) -> None:
    result = cli(*words.format(bucket.name).split())
    lines = [line for line in result.stderr.splitlines() if not line.startswith("database:")]
    assert result.exit_code, result.stdout
    assert said.format(bucket.name, bucket.name) in lines[0]
    assert len(lines) == 1
    assert "secret" not in lines[0]
    assert "sec/ret" not in lines[0]


def test_unreadable_recording_is_named_by_its_url(bucket: Bucket, cli: Cli) -> None:
    put_recordings(bucket)
    bucket.put("run/rec.rank9.json", b'{"sm90":')
    assert f"{bucket.url}/run/rec.rank9.json: not JSON" in error_of(cli("ingest", f"{bucket.url}/run"))
    said = cli("ingest", f"{bucket.url}/run", "--keep-going", "--run", "july").stderr
    assert "ingested 4 recordings" in said


def test_database_of_another_tool(bucket: Bucket, cli: Cli) -> None:
    """SQLite opens a copy of the object."""
    files = sorted((Path(__file__).parent.parent / "data" / "tools").rglob("*.db"))
    assert files
    said = cli("ingest", bucket.put(files[0].name, files[0].read_bytes()))
    assert said.exit_code == 0
    assert "ingested 1 " in said.stderr


def test_local_files_need_no_fsspec(database: str, tmp_path: Path) -> None:
    """A `file://` URL is a local path, and no command loads fsspec for one."""
    blocked = tmp_path / "fsspec.py"
    blocked.write_text("raise AssertionError('loaded')")
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": "/usr/bin"}
    out = tmp_path / "out" / "sm90.json"
    said = run_registry("merge", *sorted(H200.glob("rec.*.json")), "-o", f"file://{out}", "--triton", "3.6.0", env=env)
    assert said.returncode == 0, said.stderr
    assert out.is_file()
