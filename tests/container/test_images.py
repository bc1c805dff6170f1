"""The base image, made and used for real: by every runtime, without a way up, once, and gone when asked."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.errors import BackendUnavailable
from sandbox.images import BaseImage, bootstrap, digest, find, list_images, prune
from sandbox.images.image_python import ask_image
from sandbox.images.tarball import TarballCache, default_cache
from tests.daemons import HARDENED, RUNTIMES

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

LABELS: Final = {f"sandbox.{name}": "x" for name in ("name", "recipe", "inputs", "made_from", "made_by", "created")}


@pytest.fixture
def old_image(docker_client: DockerClient) -> Iterator[str]:
    """Make an image from an older recipe and return its id."""
    yield import_image(
        docker_client, "sandbox/base", "0" * 12, {**LABELS, "sandbox.content": "0" * 64, "sandbox.name": "python"}
    )
    remove(docker_client, f"sandbox/base:{'0' * 12}")


@pytest.fixture
def foreign_images(docker_client: DockerClient) -> Iterator[set[str]]:
    """Make a foreign image and one on top of ours, and return their ids."""
    derived = {**LABELS, "sandbox.content": "1" * 64}
    yield {
        import_image(docker_client, "foreign", "1", {}),
        import_image(docker_client, "derived", "1", derived),
    }
    for name in ("foreign:1", "derived:1"):
        remove(docker_client, name)


def import_image(client: DockerClient, repository: str, tag: str, labels: dict[str, str]) -> str:
    changes = [
        f"LABEL {key}={json.dumps(value)}" for key, value in {"sandbox.owner": "sandbox-engine", **labels}.items()
    ]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(f"{repository}-{tag}".replace("/", "-")))
    client.api.import_image_from_data(
        file.getvalue(), repository=repository, tag=tag, changes=changes if labels else None
    )
    return str(client.images.get(f"{repository}:{tag}").id)


def remove(client: DockerClient, name: str) -> None:
    from docker.errors import ImageNotFound

    try:
        client.api.remove_image(name)
    except ImageNotFound:
        return


def run(client: DockerClient, image: BaseImage, *command: str, **options: Any) -> str:
    answer: bytes = client.containers.run(image.tag, list(command), remove=True, **{**HARDENED, **options})
    return answer.decode()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_it_runs_python_hardened_under_every_runtime(
    runtime: str, docker_client: DockerClient, base_image: BaseImage
) -> None:
    script = "import os, ssl, sqlite3; print(os.getuid(), os.getgid(), os.access('/', os.W_OK))"
    assert run(docker_client, base_image, "python3", "-I", "-c", script, runtime=runtime) == "200001 200001 False\n"


def test_nothing_in_it_gives_rights(docker_client: DockerClient, base_image: BaseImage) -> None:
    gives_rights = ["-perm", "/6000"]
    all_may_write = ["!", "-type", "l", "-perm", "-0002", "!", "-perm", "-1000"]
    for search in (gives_rights, all_may_write):
        assert run(docker_client, base_image, "find", "/", "-xdev", *search, user="0:0") == ""


def test_nothing_in_it_installs_compiles_or_downloads(docker_client: DockerClient, base_image: BaseImage) -> None:
    script = (
        "import shutil; names = 'apt apt-get dpkg pip gcc cc make curl wget perl nc ssh su mount passwd'.split();"
        "print([name for name in names if shutil.which(name)])"
    )
    assert run(docker_client, base_image, "python3", "-I", "-c", script) == "[]\n"


def test_it_tells_nothing_of_the_machine_it_was_made_on(docker_client: DockerClient, base_image: BaseImage) -> None:
    script = (
        "import os; print([path for path in ('/etc/apt', '/etc/machine-id', '/etc/shadow', '/var/log/bootstrap.log',"
        " '/var/lib/apt', '/var/cache/apt') if os.path.lexists(path)])"
    )
    assert run(docker_client, base_image, "python3", "-I", "-c", script) == "[]\n"


def test_scanners_find_what_is_installed(docker_client: DockerClient, base_image: BaseImage) -> None:
    status = run(docker_client, base_image, "cat", "/var/lib/dpkg/status")
    assert "Package: libssl3" in status
    assert "Package: apt\n" not in status


def test_it_says_whose_it_is_and_where_it_comes_from(docker_client: DockerClient, base_image: BaseImage) -> None:
    config = docker_client.images.get(base_image.tag).attrs["Config"]
    assert config["Labels"]["sandbox.owner"] == "sandbox-engine"
    assert config["Labels"]["sandbox.made_by"].startswith("debootstrap")
    assert base_image.tag == f"sandbox/base:{config['Labels']['sandbox.content'][:12]}"
    assert config["User"] == "200000:200000"


def test_it_says_which_python_it_has(docker_client: DockerClient, base_image: BaseImage) -> None:
    script = "import importlib.util, platform; print(platform.python_version(), importlib.util.MAGIC_NUMBER.hex())"
    said = run(docker_client, base_image, "python3", "-I", "-c", script).split()
    assert [base_image.python.version, base_image.python.magic] == said
    labels = docker_client.images.get(base_image.tag).attrs["Config"]["Labels"]
    assert json.loads(labels["sandbox.python"])["version"] == base_image.python.version


def test_cached_files_without_a_recorded_python_are_asked_once(
    docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    kept = TarballCache(tmp_path / "cache")
    with kept.locked(base_image.inputs):
        record = TarballCache(default_cache()).find(base_image.inputs)
        assert record is not None
        kept.tarball(base_image.inputs).symlink_to(TarballCache(default_cache()).tarball(base_image.inputs))
        kept.note(record.model_copy(update={"python": None}))
    docker_client.api.remove_image(base_image.tag)
    again = bootstrap(docker_client, cache=kept.folder)
    assert (again.way, again.image.python) == ("cached", base_image.python)
    noted = kept.find(base_image.inputs)
    assert noted is not None
    assert noted.python == base_image.python
    assert [image.python for image in list_images(docker_client)] == [base_image.python]


def test_an_image_that_does_not_say_which_python_it_has_is_asked(
    docker_client: DockerClient, base_image: BaseImage
) -> None:
    api, (repository, _, tag) = docker_client.api, base_image.tag.partition(":")
    labelled = docker_client.images.get(base_image.tag).id
    container = api.create_container(base_image.tag)["Id"]
    try:
        without = api.commit(container, repository=repository, tag=tag, changes=['LABEL sandbox.python=""'])["Id"]
        assert [image.python.version for image in list_images(docker_client)] == [""]
        found = find(docker_client)
        assert found is not None
        assert (found.id, found.python) == (without, base_image.python)
    finally:
        api.remove_container(container)
        api.tag(labelled, repository, tag)
        remove(docker_client, without)


def test_an_image_whose_python_is_a_script_is_not_believed(docker_client: DockerClient, base_image: BaseImage) -> None:
    container = docker_client.api.create_container(base_image.tag, ["x"])["Id"]
    try:
        docker_client.api.put_archive(
            container, "/usr/bin", archive_of("python3", b"#!/bin/sh\nyes $$ | head -n 99999\n")
        )
        docker_client.api.commit(container, repository="foreign", tag="script")
        with pytest.raises(BackendUnavailable, match="gives no valid answer"):
            ask_image(docker_client, "foreign:script")
    finally:
        docker_client.api.remove_container(container)
        remove(docker_client, "foreign:script")


def archive_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def test_a_second_time_nothing_is_done(docker_client: DockerClient, base_image: BaseImage) -> None:
    again = bootstrap(docker_client, on_stage=pytest.fail)
    assert (again.image.tag, again.way) == (base_image.tag, "present")
    assert digest(docker_client) == again.image.id


def test_a_daemon_that_lost_it_has_it_again_from_the_files_kept(
    docker_client: DockerClient, base_image: BaseImage
) -> None:
    docker_client.api.remove_image(base_image.tag)
    with pytest.raises(BackendUnavailable, match="sandbox image bootstrap"):
        digest(docker_client)
    again = bootstrap(docker_client)
    assert (again.way, again.image.content) == ("cached", base_image.content)


def test_what_a_newer_one_replaced_is_pruned_and_nothing_else(
    docker_client: DockerClient, base_image: BaseImage, old_image: str, foreign_images: set[str]
) -> None:
    assert old_image in {image.id for image in list_images(docker_client)}
    assert prune(docker_client, dry_run=True).removed == (f"sandbox/base:{'0' * 12}",)
    report = prune(docker_client)
    assert (report.removed, report.in_use) == ((f"sandbox/base:{'0' * 12}",), ())
    there = {str(image.id) for image in docker_client.images.list()}
    assert old_image not in there
    assert foreign_images <= there
    assert find(docker_client) is not None


def test_what_a_container_uses_stays(docker_client: DockerClient, base_image: BaseImage, old_image: str) -> None:
    container = docker_client.api.create_container(old_image, ["x"])
    try:
        report = prune(docker_client)
        assert (report.removed, report.in_use) == ((), (f"sandbox/base:{'0' * 12}",))
    finally:
        docker_client.api.remove_container(container)


def test_the_command_line_makes_lists_and_prunes(docker_daemon: str, base_image: BaseImage, old_image: str) -> None:
    def answer(*words: str) -> object:
        command = [sys.executable, "-m", "sandbox", "image", *words, "--json"]
        environment = {**os.environ, "DOCKER_HOST": docker_daemon}
        return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    made = answer("bootstrap")
    assert isinstance(made, dict)
    assert made["way"] == "present"
    listed = answer("list")
    assert isinstance(listed, list)
    assert {image["id"] for image in listed} >= {old_image, made["id"]}
    pruned = answer("prune")
    assert isinstance(pruned, dict)
    assert pruned["removed"] == [f"sandbox/base:{'0' * 12}"]


def test_the_command_line_tells_people_what_to_do_without_a_daemon(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox", "image", "list", "--docker-host", f"unix://{tmp_path}/none.sock"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (5, "")
    assert "start Docker" in answer.stderr


@pytest.mark.parametrize(
    "words",
    [("list",), ("bootstrap",), ("prune",), ("pull", "x"), ("push", "x", "y")],
    ids=lambda words: words[0],
)
def test_every_command_speaks_to_the_daemon_that_calls_do(words: tuple[str, ...], tmp_path: Path) -> None:
    """The option comes before the file, and the file before `DOCKER_HOST`."""
    settings, none = tmp_path / "settings.toml", f"unix://{tmp_path}/none.sock"
    settings.write_text(f'[container]\nhost = "{none}"\n')
    variables = {**os.environ, "SANDBOX_CONFIG": str(settings), "DOCKER_HOST": f"unix://{tmp_path}/other.sock"}

    def error_of(*more: str) -> str:
        command = [sys.executable, "-m", "sandbox", "image", *words, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=variables).stderr

    assert f"no Docker daemon answers at {none}" in error_of()
    typed = f"unix://{tmp_path}/typed.sock"
    assert f"no Docker daemon answers at {typed}" in error_of("--docker-host", typed)
    settings.write_text("")
    assert f"no Docker daemon answers at unix://{tmp_path}/other.sock" in error_of()
