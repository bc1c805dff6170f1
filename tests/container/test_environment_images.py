"""Environments as images: the same files as in the store, made once whatever happens meanwhile, gone when asked."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox import Sandbox
from sandbox.backends.container.docker.client import connect
from sandbox.environments.model import Environment
from sandbox.environments.store.store import Store
from sandbox.errors import BackendUnavailable, EnvironmentTampered, EnvironmentUnavailable, SpecError
from sandbox.images import (
    BaseImage,
    EnvironmentImage,
    bootstrap,
    environment_image,
    find_environment_image,
    list_environment_images,
    list_images,
    prune_environment_images,
    pull,
    push,
)
from tests.checkout import ROOT
from tests.container.registries import LocalRegistry
from tests.daemons import HARDENED
from tests.end_to_end.packages import machine_with, publish
from tests.indexes import LocalIndex
from tests.provision import docker_daemon as provision

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.slow, pytest.mark.root]

PATIENCE_S: Final = 110
PASSWORD: Final = "nobodys-business"
TREE: Final = """
import hashlib, importlib.metadata, json, os, stat, sys
root, site, tree = sys.argv[1], os.path.join(sys.argv[1], sys.argv[2]), {}
for parent, folders, files in os.walk(root):
    for path in [os.path.join(parent, name) for name in folders + files]:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            content = os.readlink(path)
        elif stat.S_ISDIR(mode):
            content = ""
        else:
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
        tree[os.path.relpath(path, root)] = [stat.filemode(mode), content]
installed = sorted([each.name, each.version] for each in importlib.metadata.distributions(path=[site]))
records = {path: entry for path, entry in tree.items() if path.endswith("/RECORD")}
digest = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
mode = stat.filemode(os.stat(root).st_mode)
print(json.dumps({"tree": tree, "root": mode, "installed": installed, "records": digest}))
"""
IMPORT: Final = """
import sys
sys.path.insert(0, "/environment/" + sys.argv[1])
import numpy
assert numpy.__cached__.endswith(".cpython-311.pyc")
print(numpy.__version__, int(numpy.arange(10).sum()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """A small environment from an index with a login, in a store of its own, in use while its engine is open."""
    folder = tmp_path_factory.mktemp("small")
    publish(folder / "wheels", "small", "1.0")
    with Sandbox(store=folder / "store") as engine:
        with LocalIndex(folder / "wheels", login=("someone", PASSWORD)) as index:
            with machine_with(index.url.replace("//", f"//someone:{PASSWORD}@")):
                environment = engine.build(requirements=("small==1.0",))
            assert index.authorizations
        yield environment


@pytest.fixture(scope="module")
def pruned(built: Environment, docker_client: DockerClient) -> Iterator[None]:
    """In the end the daemon has no image of it."""
    yield
    assert prune_environment_images(docker_client, key=built.key).in_use == ()


@pytest.fixture
def small(
    built: Environment, pruned: None, base_image: BaseImage, docker_client: DockerClient
) -> Iterator[Environment]:
    """Return the same environment, whose image the daemon may have; no later test makes the image."""
    yield built
    assert makers(docker_client) == []


@pytest.fixture
def unmade(small: Environment, docker_client: DockerClient) -> Environment:
    """The same, of which the daemon has no image."""
    prune_environment_images(docker_client, key=small.key)
    assert images_of(docker_client, small) == ()
    return small


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    """Return a registry for all pushes, so that no layer is sent twice."""
    with LocalRegistry() as registry:
        yield registry


@pytest.fixture(scope="module")
def numpy_built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Return an environment with numpy, from this machine's package sources."""
    with Sandbox(store=tmp_path_factory.mktemp("numpy") / "store") as engine:
        yield engine.build(requirements=("numpy",))


@pytest.fixture
def numpy(numpy_built: Environment, docker_client: DockerClient) -> Iterator[Environment]:
    """The same, of which the daemon has no image afterwards."""
    yield numpy_built
    assert prune_environment_images(docker_client, key=numpy_built.key).in_use == ()


def store_of(environment: Environment) -> Path:
    assert environment.installed is not None
    return environment.installed.parents[3]


def images_of(client: DockerClient, environment: Environment) -> tuple[EnvironmentImage, ...]:
    return tuple(image for image in list_environment_images(client) if image.key == environment.key)


def makers(client: DockerClient) -> list[str]:
    """Containers in which images are made, or were to be."""
    return [each["Id"] for each in client.api.containers(all=True, filters={"name": "sandbox-making-"})]


def printed(client: DockerClient, image: str, script: str, *arguments: str, **options: Any) -> str:
    command = ["python3", "-I", "-c", script, *arguments]
    answer: bytes = client.containers.run(image, command, remove=True, **{**HARDENED, **options})
    return answer.decode()


def cli(docker_daemon: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "sandbox", "image", *words, "--docker-host", docker_daemon, "--json"]


def answer(docker_daemon: str, *words: str) -> Any:
    """Return the output; the test shows stderr on a failure."""
    return json.loads(subprocess.run(cli(docker_daemon, *words), stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)


def test_an_environment_is_the_same_in_the_store_in_its_image_and_mounted(
    docker_client: DockerClient, base_image: BaseImage, numpy: Environment
) -> None:
    image = environment_image(docker_client, numpy, base=base_image)
    folder, site = str(numpy.installed), numpy.site
    here = [sys.executable, "-I", "-c", TREE, folder, site]
    in_store = json.loads(subprocess.run(here, capture_output=True, check=True).stdout)
    mount = {"volumes": {folder: {"bind": "/environment", "mode": "ro"}}}
    in_image = json.loads(printed(docker_client, image.tag, TREE, "/environment", site))
    mounted = json.loads(printed(docker_client, base_image.tag, TREE, "/environment", site, **mount))
    assert in_store == in_image == mounted
    ((name, version),) = in_store["installed"]
    assert name == "numpy"
    assert printed(docker_client, image.tag, IMPORT, site) == f"{version} 45\n"
    assert printed(docker_client, base_image.tag, IMPORT, site, **mount) == f"{version} 45\n"


def test_its_layer_holds_the_environment_and_nothing_else(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    with tarfile.open(fileobj=io.BytesIO(last_layer(docker_client, image))) as layer:
        members = layer.getmembers()
    assert all(member.name == "environment" or member.name.startswith("environment/") for member in members)
    assert {(member.uid, member.gid, member.mode & 0o7222) for member in members if not member.issym()} == {(0, 0, 0)}
    assert any(member.name.endswith("/small.py") for member in members)


def test_nothing_of_this_machines_settings_is_in_it(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    found = docker_client.images.get(image.tag)
    told = json.dumps([found.attrs, found.history()])
    layer = last_layer(docker_client, image)
    for secret in (PASSWORD, "127.0.0.1", "-----BEGIN CERTIFICATE", "https_proxy", "PIP_"):
        assert secret not in told
        assert secret.encode() not in layer


def last_layer(client: DockerClient, image: EnvironmentImage) -> bytes:
    saved = io.BytesIO(b"".join(client.api.get_image(image.tag)))
    with tarfile.open(fileobj=saved) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        layer = archive.extractfile(json.load(manifest)[0]["Layers"][-1])
        assert layer is not None
        return layer.read()


def test_it_says_what_it_is_and_who_made_it(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    config = docker_client.images.get(image.tag).attrs["Config"]
    labels = config["Labels"]
    assert labels["sandbox.owner"] == "sandbox-engine"
    assert labels["sandbox.kind"] == "environment"
    assert labels["sandbox.environment.key"] == small.key
    assert labels["sandbox.environment.lock_digest"] == small.lock_digest
    assert labels["sandbox.environment.made_by"].startswith("sandbox-engine ")
    assert (config["User"], config["Cmd"]) == ("200000:200000", ["/usr/bin/python3"])
    assert image.tag.startswith(f"sandbox/env:{small.key[:16]}-")
    assert images_of(docker_client, small) == (image,)


def test_a_second_time_nothing_is_done_and_a_lost_image_is_made_again(
    docker_client: DockerClient, base_image: BaseImage, unmade: Environment
) -> None:
    image = environment_image(docker_client, unmade, base=base_image)
    assert environment_image(docker_client, unmade, base=base_image, on_stage=pytest.fail) == image
    docker_client.api.remove_image(image.tag)
    again = environment_image(docker_client, unmade, base=base_image)
    assert (again.tag, again.key) == (image.tag, image.key)
    assert printed(docker_client, again.tag, "import os; print(os.listdir('/environment/lib'))") == "['python3.11']\n"


def test_another_base_image_gives_another_image(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    other = replace(base_image, content="f" * 64)
    assert find_environment_image(docker_client, small.key, base=other) is None
    assert find_environment_image(docker_client, small.key, base=base_image) == image


def test_an_environment_for_another_python_is_refused_by_name(
    docker_client: DockerClient, base_image: BaseImage, unmade: Environment
) -> None:
    newer = replace(base_image, python=replace(base_image.python, version="3.12.1", abi="cp312"))
    with pytest.raises(EnvironmentUnavailable, match=r"built for cp311-.* is cpython 3\.12\.1 \(cp312-"):
        environment_image(docker_client, unmade, base=newer)


def test_nothing_installed_needs_no_image(docker_client: DockerClient, base_image: BaseImage) -> None:
    with Sandbox() as engine:
        bare = engine.build("def tool() -> int:\n    return 1\n")
    with pytest.raises(SpecError, match="this environment has no packages"):
        environment_image(docker_client, bare, base=base_image)


def test_processes_that_want_the_same_image_make_it_once(docker_daemon: str, unmade: Environment) -> None:
    command = cli(docker_daemon, "build", "--key", unmade.key, "--store", str(store_of(unmade)))
    running = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(3)]
    answers = [json.loads(each.communicate(timeout=PATIENCE_S)[0]) for each in running]
    assert sorted(each["way"] for each in answers) == ["built", "present", "present"]
    assert len({each["id"] for each in answers}) == 1


def test_another_machine_that_makes_the_same_meanwhile_does_no_harm(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, unmade: Environment, tmp_path: Path
) -> None:
    elsewhere = ["unshare", "--uts", "sh", "-ec", 'hostname elsewhere; exec "$@"', "sh"]
    command = [*elsewhere, *cli(docker_daemon, "build", "--key", unmade.key, "--store", str(store_of(unmade)))]
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    ids: list[str] = []

    def on_stage(stage: str) -> None:
        if stage.startswith("making"):
            said = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, check=True).stdout
            ids.append(json.loads(said)["id"])

    before = {each["Id"] for each in docker_client.api.images()}
    image = environment_image(docker_client, unmade, base=base_image, on_stage=on_stage)
    assert ids == [image.id]
    assert {each["Id"] for each in docker_client.api.images()} - before == {image.id}


def test_what_a_killed_maker_left_is_removed_by_the_next(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, numpy: Environment
) -> None:
    command = cli(docker_daemon, "build", "--key", numpy.key, "--store", str(store_of(numpy)))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as maker:
        wait_until(lambda: bool(makers(docker_client)))
        maker.kill()
    assert images_of(docker_client, numpy) == ()
    environment_image(docker_client, numpy, base=base_image)
    assert makers(docker_client) == []


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(0.005)


def test_an_environment_in_use_is_not_pruned_while_its_image_is_made(
    docker_client: DockerClient, base_image: BaseImage, unmade: Environment
) -> None:
    def on_stage(_: str) -> None:
        assert Store(store_of(unmade)).prune(older_than_s=0).in_use == (unmade.key,)

    assert environment_image(docker_client, unmade, base=base_image, on_stage=on_stage).key == unmade.key


def test_an_environment_that_goes_away_all_the_same_makes_no_image(
    docker_client: DockerClient, base_image: BaseImage, unmade: Environment
) -> None:
    home = store_of(unmade) / "envs" / "1" / unmade.key
    aside = home.with_name("aside")
    try:
        with pytest.raises(EnvironmentUnavailable, match="gone"):
            environment_image(docker_client, unmade, base=base_image, on_stage=lambda _: moved(home, aside))
    finally:
        aside.rename(home)
    assert images_of(docker_client, unmade) == ()


def moved(home: Path, aside: Path) -> None:
    if home.exists():
        home.rename(aside)


def test_changed_files_make_no_image(docker_client: DockerClient, base_image: BaseImage, unmade: Environment) -> None:
    assert unmade.installed is not None
    added = unmade.installed / unmade.site / "sitecustomize.py"
    added.write_text("print('hello')")
    try:
        with pytest.raises(EnvironmentTampered, match="not those that were built"):
            environment_image(docker_client, unmade, base=base_image)
    finally:
        added.unlink()
    assert images_of(docker_client, unmade) == ()
    assert makers(docker_client) == []


def test_a_base_image_that_is_gone_is_named(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    with pytest.raises(BackendUnavailable, match="sandbox image bootstrap"):
        environment_image(docker_client, small, base=replace(base_image, tag="sandbox/base:gone", content="0" * 64))


def test_images_are_pruned_by_key_age_and_base_unless_in_use(
    docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    assert prune_environment_images(docker_client).removed == ()
    assert prune_environment_images(docker_client, older_than_s=3600).removed == ()
    assert prune_environment_images(docker_client, older_than_s=0, dry_run=True).removed == (image.tag,)
    container = docker_client.api.create_container(image.tag)
    try:
        kept = prune_environment_images(docker_client, key=small.key[:12])
        assert (kept.removed, kept.in_use) == ((), (image.tag,))
    finally:
        docker_client.api.remove_container(container)
    gone = prune_environment_images(docker_client, older_than_s=0)
    assert (gone.removed, gone.in_use, gone.bytes_freed > 0) == ((image.tag,), (), True)


def test_an_image_on_a_base_that_was_replaced_is_pruned(
    docker_client: DockerClient, base_image: BaseImage, unmade: Environment
) -> None:
    old = replace(base_image, content="0" * 64)  # the same files, under the name that an older base would give
    image = environment_image(docker_client, unmade, base=old)
    assert prune_environment_images(docker_client).removed == (image.tag,)


def test_the_command_line_builds_lists_and_prunes(docker_daemon: str, unmade: Environment) -> None:
    store = str(store_of(unmade))
    built = answer(docker_daemon, "build", "--key", unmade.key[:12], "--store", store)
    assert (built["way"], built["key"]) == ("built", unmade.key)
    assert answer(docker_daemon, "build", "--key", unmade.key, "--store", store)["way"] == "present"
    listed = {each["tag"]: each["kind"] for each in answer(docker_daemon, "list")}
    assert listed[built["tag"]] == "environment"
    assert "base" in listed.values()
    assert answer(docker_daemon, "prune", "--older-than", "0s")["removed"] == [built["tag"]]


def test_the_command_line_builds_the_environment_too(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, tmp_path: Path
) -> None:
    publish(tmp_path / "wheels", "wanted", "1.0")
    with LocalIndex(tmp_path / "wheels") as index, machine_with(index.url):
        built = answer(docker_daemon, "build", "--with", "wanted", "--store", str(tmp_path / "store"))
    assert Store(tmp_path / "store").find(built["key"]) is not None
    assert prune_environment_images(docker_client, key=built["key"]).removed == (built["tag"],)


def test_a_push_takes_the_whole_image_to_a_registry(
    docker_client: DockerClient, base_image: BaseImage, small: Environment, registry: LocalRegistry
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    pushed = push(docker_client, image, f"{registry.address}/tools/env")
    manifest = registry.manifests[f"tools/env:{image.tag.partition(':')[2]}"]
    blobs = [registry.blobs[layer["digest"]] for layer in manifest["layers"]]
    assert [f"sha256:{hashlib.sha256(blob).hexdigest()}" for blob in blobs] == [
        layer["digest"] for layer in manifest["layers"]
    ]
    assert gzip.decompress(blobs[-1]) == last_layer(docker_client, image)
    assert pushed.pinned.startswith(f"{registry.address}/tools/env@sha256:")
    assert docker_client.images.get(image.id).tags == [image.tag]


def test_what_was_pushed_is_pulled_by_its_digest_and_found(
    docker_daemon: str,
    docker_client: DockerClient,
    base_image: BaseImage,
    small: Environment,
    registry: LocalRegistry,
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    pinned = push(docker_client, image, f"{registry.address}/tools/env").pinned
    docker_client.api.remove_image(image.tag)
    assert find_environment_image(docker_client, small.key, base=base_image) is None
    assert answer(docker_daemon, "pull", pinned)["tag"] == image.tag
    assert find_environment_image(docker_client, small.key, base=base_image) == image
    assert docker_client.images.get(image.id).tags == [image.tag]
    base = bootstrap(docker_client).image  # another test may have lost it, and its id with it
    assert pull(docker_client, push(docker_client, base, f"{registry.address}/tools/env").pinned) == base


@pytest.mark.parametrize("owner", ["somebody", "sandbox-engine"])
def test_what_is_no_image_of_ours_is_not_kept(
    owner: str, docker_client: DockerClient, base_image: BaseImage, registry: LocalRegistry
) -> None:
    """An image on top of ours inherits all labels, and is not ours."""
    container = docker_client.api.create_container(base_image.tag, ["x"])["Id"]
    try:
        labels = [f"LABEL sandbox.owner={owner}"]
        foreign = docker_client.api.commit(container, repository="foreign", tag="1", changes=labels)["Id"]
        pinned = push(docker_client, replace(base_image, id=foreign), f"{registry.address}/tools/env").pinned
        with pytest.raises(SpecError, match="is no image of ours"):
            pull(docker_client, pinned)
        assert docker_client.images.get(foreign).tags == ["foreign:1"]
        assert base_image.tag in {image.tag for image in list_images(docker_client)}
    finally:
        docker_client.api.remove_container(container)
        docker_client.api.remove_image("foreign:1")


def test_an_image_that_a_registry_lacks_is_named(docker_client: DockerClient, registry: LocalRegistry) -> None:
    with pytest.raises(BackendUnavailable, match="pull"):
        pull(docker_client, f"{registry.address}/tools/env@sha256:{'0' * 64}")


@pytest.mark.parametrize("reference", ["", "sandbox/base:1", "-x@sha256:" + "0" * 64, "a@sha256:" + "0" * 63])
def test_only_what_is_named_by_its_digest_is_pulled(reference: str, docker_client: DockerClient) -> None:
    with pytest.raises(SpecError, match="by its digest"):
        pull(docker_client, reference)


def test_the_error_of_a_refusing_registry_has_a_remedy(
    docker_daemon: str, docker_client: DockerClient, base_image: BaseImage, small: Environment
) -> None:
    image = environment_image(docker_client, small, base=base_image)
    with LocalRegistry() as registry:
        registry.refuses = True
        with pytest.raises(BackendUnavailable, match=r"could not be pushed .*denied.*docker login localhost:"):
            push(docker_client, image, f"{registry.address}/tools/env")
    command = cli(docker_daemon, "push", small.key[:12], f"{registry.address}/tools/env")
    gone = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert gone.returncode == 5
    assert "can reach localhost:" in json.loads(gone.stdout)["error"]["remedy"]
    assert docker_client.images.get(image.id).tags == [image.tag]


@pytest.mark.parametrize("repository", ["", "UPPER/case", "name:tag", "--flag", "a/../b", "a" * 300])
def test_what_is_no_repository_is_refused(repository: str, docker_client: DockerClient, base_image: BaseImage) -> None:
    with pytest.raises(SpecError, match="is no repository"):
        push(docker_client, base_image, repository)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.timeout(300)
def test_the_error_about_a_full_disk_of_the_daemon_has_a_remedy(
    base_image: BaseImage, numpy_built: Environment, tmp_path: Path
) -> None:
    with (
        small_disk(tmp_path, "150m") as disk,
        provision.running(f"--data-root={disk}/data") as url,
        closing(connect(url)) as client,
    ):
        base = bootstrap(client).image
        with pytest.raises(BackendUnavailable, match=r"disk is full.*sandbox image prune"):
            environment_image(client, numpy_built, base=base)
        assert list_environment_images(client) == ()
        assert makers(client) == []
