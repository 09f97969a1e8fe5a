"""The documentation holds: blocks run, every page is reachable, links lead somewhere, names exist."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from docs._build import generate
from tests.conftest import ROOT
from tests.docs.blocks import (
    KINDS,
    MARKS,
    Block,
    Command,
    Shell,
    blocks,
    check_syntax,
    commands,
    pages,
    run_page,
)
from tests.docs.servers import postgres_of, store_of
from tuning_registry.cli.app import app

PAGES = pages()
SITE = [page for page in PAGES if page.startswith("docs/")]
NAVIGATION = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
MARK_LINES = re.compile(rf"^ *<!-- (?:{'|'.join(MARKS)}):\s", re.MULTILINE)
COMMANDS = {path.removeprefix("registry").strip() for path, _ in generate.walk_commands("registry", get_command(app))}


def text(page: str) -> str:
    return (ROOT / page).read_text()


def slug(title: str) -> str:
    """The anchor that the site gives to a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def block(kind: str, content: str, **marks: str) -> Block:
    return Block(kind=kind, text=content, line=1, marks=marks)


@pytest.fixture
def shell(page: str, tmp_path: Path) -> Iterator[Shell]:
    """A shell for the page, with the servers that the page asks for."""
    with postgres_of(page) as client, store_of(page) as variables:
        client["variables"] = client.get("variables", {}) | variables
        yield Shell(tmp_path, provides={"no-triton"}, **client)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_do_what_the_page_shows(page: str, shell: Shell, request: pytest.FixtureRequest) -> None:
    run_page(page, shell, rewriting=request.config.getoption("--rewrite-golden"))


def test_blocks_run_somewhere() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.kind != "text"]
    assert len(found) > 150
    nowhere = [block for block in found if "not run" in block.marks]
    assert len(nowhere) <= 12, "find a way to run the new block"


def test_marks_are_filled_in() -> None:
    for page in PAGES:
        for found in blocks(page):
            where = (page, found.line)
            assert all(len(value) > 4 for name, value in found.marks.items() if name != "needs"), where
            assert set(found.marks.get("needs", "").split()) <= {"triton", "torch", "job", "no-triton"}, where
        assert len(re.findall(MARK_LINES, text(page))) == sum(len(found.marks) for found in blocks(page)), page


def test_blocks_that_another_test_runs_are_read_by_it() -> None:
    found = {(page, block.marks["run by"]) for page in PAGES for block in blocks(page) if "run by" in block.marks}
    assert len(found) > 1
    for page, file in found:
        assert f'blocks_run_by(__file__, "{page}")' in text(file)


def test_packages_that_a_page_installs_from_the_checkout_exist() -> None:
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    named = {
        name for page in PAGES for name in re.findall(r"pip install '(?:\.|tuning-registry)\[([\w,-]+)\]", text(page))
    }
    assert named
    assert {extra for names in named for extra in names.split(",")} <= set(extras)


def test_a_changed_output_fails(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.run_console(block("console", "$ echo one\none\n$ echo two three\ntwo ...\n"))
    with pytest.raises(AssertionError, match="shown"):
        shell.run_console(block("console", "$ echo one\ntwo\n"))


def test_an_exit_status_is_compared_with_what_is_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.run_console(block("console", "$ echo error: no; false\nerror: no\n"))
    for content in ("$ echo fine; false\nfine\n", "$ echo error: no\nerror: no\n"):
        with pytest.raises(AssertionError, match="exit status"):
            shell.run_console(block("console", content))


def test_failing_scripts_and_python_fail(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with pytest.raises(AssertionError):
        shell.run_script("false\ntrue")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        shell.run_python("1 / 0")


def test_exported_variables_last_for_the_page(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.run_script("export A='one two'; B=3")
    shell.run_console(block("console", "$ echo $A $B\none two\n"))


def test_a_server_must_show_a_sign_of_life_and_end_when_it_is_interrupted(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    serve = "import signal, sys; signal.signal(2, lambda *_: sys.exit({})); print('ready', flush=True); signal.pause()"
    (tmp_path / "good.py").write_text(serve.format(0))
    (tmp_path / "bad.py").write_text(serve.format(3))
    shell.run_server("true\npython good.py", "ready")
    for command, sign in (("echo never", "ready"), ("python bad.py", "ready"), ("false\npython good.py", "ready")):
        with pytest.raises(AssertionError):
            shell.run_server(command, sign)


def test_marks_decide_whether_a_block_runs(tmp_path: Path) -> None:
    shell = Shell(tmp_path, provides={"triton"})
    assert shell.runs(block("sh", "true", before="true"))
    assert shell.runs(block("sh", "true", needs="triton"))
    assert not shell.runs(block("sh", "true", needs="job"))
    assert not shell.runs(block("sh", "true", **{"run by": "another test"}))


@pytest.mark.parametrize(
    ("kind", "content"),
    [("python", "def"), ("sh", "if true"), ("console", "no command"), ("console", "$ echo 'x\n"), ("json", "{"),
     ("toml", "a ="), ("", "text"), ("rust", "")],
)  # fmt: skip
def test_broken_syntax_is_found_without_running(kind: str, content: str) -> None:
    with pytest.raises((AssertionError, SyntaxError, ValueError, subprocess.CalledProcessError)):
        check_syntax(block(kind, content))


def test_commands_may_continue_on_the_next_line() -> None:
    assert commands("$ one \\\n  two\nout\n$ three\n") == [Command("one \\\n  two", "out\n"), Command("three", "")]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A registry with the shipped recordings, and two tables of it."""
    shell = Shell(tmp_path_factory.mktemp("filled"))
    shell.run_script(
        "registry ingest examples/h200 --run july --triton 3.6.0\n"
        "registry export --arch sm90 --output sm90.json\n"
        "registry export --arch sm90 --policy fastest --output fastest.json"
    )
    return shell


@pytest.mark.parametrize(
    "query",
    ["kernels", "keys l2norm_fwd_kernel", "winners", "disagreements", "disagreements --cost", "explain --arch sm90 --kernel l2norm_fwd_kernel", "ranks",
     "runs", "status", "exports", "diff sm90.json fastest.json"],
)  # fmt: skip
def test_every_name_in_json_is_described(query: str, filled: Shell) -> None:
    status, output = filled.run(f"registry {query} --format json 2>/dev/null")
    assert status == 0
    page = text("docs/reference/output.md")
    sections = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    command = query.split(maxsplit=1)[0]
    section = next(found for title, found in sections if command in title.split()) + page.partition("\n## ")[0]
    found = json.loads(output)
    for row in found if isinstance(found, list) else [found]:
        for name, value in row.items():
            assert f"`{name}`" in section, name
            if name in {"choices", "configs"} and isinstance(value, list):
                assert [inner for one in value for inner in one if f"`{inner}`" not in section] == []


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(f"docs/{page}" for page in NAVIGATION) == sorted(SITE)


def test_every_paper_is_a_page() -> None:
    shown = {name for page in SITE for name in re.findall(r"<!-- generated: paper (\S+) -->", text(page))}
    assert shown == set(generate.PAPERS) - {"README.md"}
    assert shown | {"README.md"} == set(PAGES) - set(SITE)


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/project/")])
def test_links_lead_to_files_of_the_project(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text(page)):
        assert (ROOT / page).parent.joinpath(target).resolve().exists(), target


@pytest.mark.parametrize("page", [page for page in SITE if "<!-- generated:" not in text(page)])
def test_links_lead_to_headings_of_pages(page: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text(page)):
        linked = text(str((ROOT / page).parent.joinpath(target).resolve().relative_to(ROOT)) if target else page)
        if "<!-- generated:" not in linked:  # `make docs` checks the headings of generated pages
            prose = re.sub(r"^```.*?^```", "", linked, flags=re.MULTILINE | re.DOTALL)
            headings = re.findall(r"^#+ (.+?)(?: \{#([\w-]+)\})?$", prose, re.MULTILINE)
            assert anchor in {given or slug(title) for title, given in headings}, f"{target}#{anchor}"


def test_pages_name_no_command_that_is_gone() -> None:
    named: set[str] = set()
    for page in PAGES:
        code = "\n".join([b.text for b in blocks(page)] + re.findall(r"`([^`\n]+)`", text(page)))
        named |= set(
            re.findall(
                r"(?:^|[$&|(;] ?)registry (?:--db \S+ )?((?:(?:db|runs) )?[a-z]+(?:-[a-z]+)*)\b", code, re.MULTILINE
            )
        )
    assert len(named) > 20
    assert {name for name in named if name not in COMMANDS and name.split()[0] not in COMMANDS} == set()


def test_the_readme_has_at_most_900_words() -> None:
    shown = re.sub("<!--.*?-->", "", text("README.md"), flags=re.DOTALL)
    assert len(shown.split()) <= 900


def test_decisions_are_numbered_once_and_known_where_they_are_referred_to() -> None:
    numbers = re.findall(r"^### D(\d+)\. .* \{#d(\d+)\}$", text("docs/decisions.md"), re.MULTILINE)
    assert all(number == anchor for number, anchor in numbers)
    known = [int(number) for number, _ in numbers]
    assert sorted(known) == list(range(1, len(known) + 1))
    files = [*ROOT.glob("tuning_registry/**/*.py"), *ROOT.glob("migrations/**/*.py")]
    referred = {int(number) for file in files for number in re.findall(r"decisions\.md, D(\d+)", file.read_text())}
    assert len(referred) > 5
    assert referred <= set(known)


def test_prose_is_wrapped() -> None:
    for page in SITE:
        prose = re.sub(r"^ *```.*?^ *```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
        for line in prose.splitlines():
            assert len(line) <= 120 or line.lstrip().startswith("|"), (page, line)


def test_kinds_of_blocks_are_few() -> None:
    assert {found.kind for page in PAGES for found in blocks(page)} <= KINDS
