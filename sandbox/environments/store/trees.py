"""Package trees: each wheel is unpacked and compiled once, and every environment that wants it links to that.

    packages/<tree key>/
    ├── tree.json      what it is: `TreeFacts`
    ├── files          every file with its SHA-256
    ├── complete       the marker, see `sealing`
    └── content/       the files: modules at the top, `<name>-<version>.dist-info/`, `bin/`

A tree belongs to the engine and is read-only; boxes never see it by this name, and never writable by any other.

The engine reads a tree again before each use only if the policy wants that. A tree that differs from what was published
loses its name, and its wheel is unpacked anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from sandbox.environments.disk.complete_marker import FILES, seal, sealed_document
from sandbox.environments.disk.file_inventory import list_digest, read_list, write_list
from sandbox.environments.disk.paths import READ_ONLY, take_name, writing
from sandbox.environments.store.tree_report import TREE_DOCUMENT, TreeFacts, TreeReport
from sandbox.environments.store.verify import verify

if TYPE_CHECKING:
    from sandbox.environments.store.store import Store

_CONTENT: Final = "content"


def publish_tree(store: Store, report: TreeReport, key: str) -> TreeReport:
    """Give an adopted tree its place in the store; where another was faster, that one is taken and this one removed."""
    place = store.package_folder(key)
    with store.new_building_folder() as building, writing(f"the package tree of {report.facts.name}"):
        aside = building.folder / "tree"
        aside.mkdir(mode=0o755)
        report.folder.rename(aside / _CONTENT)
        (aside / _CONTENT).chmod(READ_ONLY)
        data = report.facts.model_dump_json(indent=1).encode()
        seal(aside, document=TREE_DOCUMENT, data=data, files=write_list(report.files))
        while not take_name(aside, place):
            if (there := load_tree(store, key)) is not None:
                return there
            store.discard(place)
    return TreeReport(place / _CONTENT, report.facts, report.files)


def load_tree(store: Store, key: str) -> TreeReport | None:
    """The tree of that key, if it is in the store and whole."""
    place = store.package_folder(key)
    data = sealed_document(place, document=TREE_DOCUMENT, content=_CONTENT)
    if data is None:
        return None
    try:
        facts = TreeFacts.model_validate_json(data)
        files = read_list((place / FILES).read_text())
    except (OSError, ValidationError, ValueError):
        return None
    return TreeReport(place / _CONTENT, facts, files) if list_digest(files) == facts.files else None


def load_intact_tree(store: Store, key: str) -> TreeReport | None:
    """The same, with every file of it read again; a tree that is not what was published is dropped from the store."""
    tree = load_tree(store, key)
    if tree is None or _is_intact(tree, key):
        return tree
    store.discard(store.package_folder(key))
    return None


def _is_intact(tree: TreeReport, key: str) -> bool:
    """Whether all files that are linked from it are as they were; other files are not read."""
    try:
        found = verify(key, tree.folder, tree.folder.parent / FILES, digest=tree.facts.files)
    except OSError:
        return False
    return not (found.changed or found.missing or found.modes)
