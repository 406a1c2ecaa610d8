"""The documentation says what is: options, commands, code, links, pictures and generated pages are those of the code.

The site itself is built by `tox run -e docs`, which also refuses what a reader's browser would load from elsewhere.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

import pytest_specgate
from pytest_specgate import hookspecs, names
from pytest_specgate.cli import COMMANDS, command
from pytest_specgate.option_table import OPTIONS
from pytest_specgate.reporting import properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

_ROOT: Final = Path(__file__).parents[2]
_DOCS: Final = _ROOT / "docs"
_PAGES: Final = [_ROOT / "README.md", *sorted(_DOCS.rglob("*.md"))]
_TEXTS: Final = {path.relative_to(_ROOT).as_posix(): path.read_text(encoding="utf-8") for path in _PAGES}
_EXAMPLES: Final = {
    path.relative_to(_ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(_DOCS.rglob("*.yml"))
}
_REASON_PAGES: Final = ("how-to/read-inconclusive.md", "how-to/read-invalid.md", "baselines.md", "comparing.md")
_OWN_VARIABLES: Final = {"SPECGATE_CACHE_DIR", "SPECGATE_COMMIT", "SPECGATE_MODEL", "SPECGATE_STATE_DIR"}
"""Variables that are no option: folders, the commit, and the model of the project's own gates."""

_CI_VARIABLES: Final = {"SPECGATE_JOB", "SPECGATE_NOTE_TOKEN", "SPECGATE_PUSH_TOKEN"}
"""What the examples for CI are given; the plugin does not read them."""


def loaded(name: str) -> ModuleType:
    """Load a script of docs/tools, which are no package."""
    spec = importlib.util.spec_from_file_location(f"docs_tools_{name}", _DOCS / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_REFERENCE: Final = loaded("reference")
_PICTURES: Final = loaded("pictures")
_HOOKS: Final = loaded("site_hooks")


def blocks(text: str, language: str = r"\w*") -> list[str]:
    """Return the fenced code of a page."""
    return re.findall(rf"^```(?:{language})\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def code_words(text: str) -> Iterator[str]:
    """Return the command lines of a page: those in code between backticks, and lines of fenced code."""
    yield from (line.removeprefix("$ ").strip() for block in blocks(text) for line in block.splitlines())
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def sub_commands() -> dict[str, set[str]]:
    """Return the commands that there are, with those that are named after each."""
    return {one.name: {other.name for other in one.commands} for one in COMMANDS}


@pytest.mark.parametrize("part", _REFERENCE.GENERATED)
def test_generated_parts_of_the_reference_are_those_of_the_code(part: str) -> None:
    """Whoever changes an option, a command or a stored key runs `python docs/tools/reference.py`."""
    page, write = _REFERENCE.GENERATED[part]
    text = _TEXTS[f"docs/reference/{page}"]

    assert _REFERENCE.renewed(text, part, write()) == text


@pytest.mark.parametrize("name", _PICTURES.DRAWINGS)
def test_pictures_are_those_that_the_code_draws(name: str) -> None:
    """Whoever changes the rule or a picture runs `python docs/tools/pictures.py`."""
    assert (_DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == _PICTURES.DRAWINGS[name]()


def test_every_picture_is_shown_somewhere() -> None:
    """No picture lies there for nothing, and none of those that could be drawn by the code is drawn by hand."""
    there = {path.name for path in (_DOCS / "pictures").iterdir()}
    shown = {name for text in _TEXTS.values() for name in re.findall(r"pictures/([\w-]+\.\w+)\)", text)}

    assert there == shown
    assert {name for name in there if name.endswith(".svg")} == {f"{name}.svg" for name in _PICTURES.DRAWINGS}


@pytest.mark.parametrize("page", [*_TEXTS, *_EXAMPLES])
def test_options_and_variables_that_a_page_names_exist(page: str) -> None:
    """A renamed option would leave a command that ends with a usage error."""
    text = {**_TEXTS, **_EXAMPLES}[page]
    flags, variables = {option.flag for option in OPTIONS}, {option.variable for option in OPTIONS}
    named = set(re.findall(r"--specgate-[a-z-]*[a-z]", text))

    assert named - flags == set()
    assert set(re.findall(r"\bSPECGATE_[A-Z_]*[A-Z]\b", text)) - variables - _OWN_VARIABLES - _CI_VARIABLES == set()


@pytest.mark.parametrize("page", _TEXTS)
def test_commands_that_a_page_names_exist(page: str) -> None:
    """`specgate WORD` is a command, and `specgate baseline WORD` one of its own."""
    known = sub_commands()
    for line in code_words(_TEXTS[page]):
        found = re.match(r"specgate ([a-z][a-z-]*)(?: ([a-z]+)(?= |$|[,`]))?", line)
        if found is None:
            continue
        assert found[1] in known, line
        assert not known[found[1]] or found[2] is None or found[2] in known[found[1]], line


def test_commands_are_found_at_all() -> None:
    """A search that finds nothing would make the test above empty."""
    lines = [line for text in _TEXTS.values() for line in code_words(text) if line.startswith("specgate ")]

    assert {line.split()[1] for line in lines if len(line.split()) > 1} >= set(sub_commands())


@pytest.mark.parametrize("page", _TEXTS)
def test_python_on_a_page_compiles_and_its_imports_resolve(page: str) -> None:
    """Code can be pasted: it is Python, and every name that it imports from this package is there."""
    for block in blocks(_TEXTS[page], "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pytest_specgate"):
                module = importlib.import_module(str(node.module))

                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("page", _TEXTS)
def test_links_lead_to_files_and_headings(page: str) -> None:
    """The README's links are in no build of the site; all others are checked here, too, as they are read on a forge."""
    folder = (_ROOT / page).parent
    plain = re.sub(r"^```.*?^```$|`[^`\n]+`", "", _TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", plain):
        place, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", place):
            continue
        target = (folder / place).resolve() if place else _ROOT / page

        assert target.exists(), link
        assert not heading or heading in headings(target), link


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, those that mkdocstrings makes included."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    slugs = {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that nobody finds is no page."""
    listed = list(_pages_of(yaml.safe_load((_ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))

    assert len(set(listed)) == len(listed)
    assert set(listed) == {path.relative_to(_DOCS).as_posix() for path in _DOCS.rglob("*.md")}


def _pages_of(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inside in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _pages_of(inside)


def test_the_gate_files_of_the_tutorial_are_collected_as_it_says(tmp_path: Path) -> None:
    """They can be pasted: the first gives the two items that the page shows, the last one more."""
    page = _TEXTS["docs/tutorial/index.md"]
    first, last = blocks(page, "python")
    (ini,) = blocks(page, "ini")
    for name, text in (("pytest.ini", ini), ("test_speed.py", first), ("test_speed_later.py", last)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    items = [line for line in found.stdout.splitlines() if line.startswith("test_speed")]

    assert found.returncode == 0, found.stdout
    assert [item for item in items if item.startswith("test_speed.py")] == re.findall(
        r"^test_speed\.py::\S+$", page, re.MULTILINE
    )
    assert len(items) == 5


def test_every_public_name_is_in_the_reference_once() -> None:
    """What can be imported is explained, and nothing else."""
    listed = re.findall(r"^::: pytest_specgate\.(\w+)$", _TEXTS["docs/reference/gate-files.md"], re.MULTILINE)

    assert sorted(listed) == sorted(pytest_specgate.__all__)


def test_every_hook_is_in_the_reference_once() -> None:
    """Its specification is shown with its types."""
    listed = re.findall(r"^::: pytest_specgate\.hookspecs\.(\w+)$", _TEXTS["docs/reference/hookspecs.md"], re.MULTILINE)

    assert sorted(listed) == sorted(name for name in vars(hookspecs) if name.startswith("pytest_specgate_"))


def test_marks_and_fixtures_are_in_the_reference() -> None:
    """Their names are part of what can be relied on."""
    page = _TEXTS["docs/reference/fixtures.md"]
    known = {names.GATE_MARK, names.PAIRS_MARK, names.THRESHOLD_FIXTURE, names.WINDOW_FIXTURE, names.SERVER_FIXTURE}

    assert {name for name in {*known, "verdict"} if f"| `{name}` |" not in page} == set()


def test_junit_properties_are_in_the_reference() -> None:
    """Whoever reads them in a dashboard finds what they mean; those that end with a unit are listed without it."""
    source = Path(properties.__file__).read_text(encoding="utf-8")
    texts = [str(node.value) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    known = {text for text in texts if re.fullmatch(r"specgate_[a-z_]+[a-z]", text)}
    known |= {value for name, value in vars(names).items() if name.endswith("_PROPERTY")}
    listed = set(re.findall(r"`(specgate_\w+)`", _TEXTS["docs/reference/junit.md"]))

    assert len(known) > 20
    assert known - listed == set()


def test_exit_statuses_of_commands_are_in_the_reference() -> None:
    """One row a status, and no status without one."""
    table = _TEXTS["docs/reference/exit-codes.md"].partition("## `specgate`")[2]
    known = {value for name, value in vars(command).items() if name.startswith("EXIT_")}

    assert {int(status) for status in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == known


def test_every_reason_is_explained_somewhere() -> None:
    """Whoever reads a code in a junit report finds what it means, and what to do."""
    explained = {word for page in _REASON_PAGES for word in re.findall(r"`([a-z-]+)`", _TEXTS[f"docs/{page}"])}
    package = Path(pytest_specgate.__file__).parent
    codes = {code for path in [*package.glob("core/*.py"), package / "boot.py"] for code in reasons(path)}

    assert len(codes) > 40
    assert codes - explained == set()


def reasons(path: Path) -> set[str]:
    """Return the codes of reasons that a module gives: written where they are given, as a constant, or in a table."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            texts = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            constants[node.target.id] = {str(one.value) for one in texts if isinstance(one, ast.Constant)}
    given = [
        word.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "reason"
    ]
    found = {str(value.value) for value in given if isinstance(value, ast.Constant)}
    found |= {code for value in given if isinstance(value, ast.Name) for code in constants.get(value.id, ())}
    found |= constants.get("_REASONS", set())
    return {code for code in found if re.fullmatch(r"[a-z]+(-[a-z]+)*", code)} - {"open", "invalid"}


def test_manifests_of_the_how_to_are_yaml() -> None:
    """What is to be pasted into a cluster can at least be read."""
    manifests = [yaml.safe_load(block) for block in blocks(_TEXTS["docs/how-to/kubernetes.md"], "yaml")]

    assert [sorted(manifest) for manifest in manifests] == [["containers"], ["apiVersion", "kind", "metadata", "spec"]]


@pytest.mark.parametrize(("text", "addresses"), [
    ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
    ('<link rel="stylesheet" href="//cdn.example/x.css">', ["//cdn.example/x.css"]),
    ('<img src="a.png" srcset="a.png 1x, http://cdn.example/a.png 2x">', ["http://cdn.example/a.png 2x"]),
    ("@import 'https://cdn.example/x.css';", ["https://cdn.example/x.css"]),
    ("a { background: url(https://cdn.example/x.png) }", ["https://cdn.example/x.png"]),
    ('<iframe src="https://elsewhere.example"></iframe>', ["https://elsewhere.example"]),
    ('<a href="https://elsewhere.example">there</a> <link rel="canonical" href="https://own.example">', []),
    ('<script src="assets/x.js"></script> <img src="../pictures/zones.svg">', []),
])  # fmt: skip
def test_a_site_that_loads_from_elsewhere_is_noticed(text: str, addresses: list[str]) -> None:
    """Links may lead anywhere; what a browser loads by itself comes from the site."""
    assert _HOOKS.loaded_from_elsewhere(text) == addresses
