"""What a box can reach through the gateway, and how the failures of real indexes come out of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import uv

from sandbox.environments.indexes import gateway as gateway_module
from sandbox.environments.indexes.answers import IndexFault
from sandbox.environments.indexes.gateway import Gateway, Origin
from sandbox.environments.indexes.pages_ahead import PagesAhead
from sandbox.environments.indexes.settings import Index, IndexSettings, read_index_settings
from sandbox.environments.indexes.upstream import Patience
from tests.end_to_end.calls import wait_until
from tests.indexes import LocalIndex, make_wheel, sha256_of

SECRET: Final = "hunter2"
IMPATIENT: Final = Patience(attempts=3, first_wait_s=0.01, longest_wait_s=0.02)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocalIndex]:
    with LocalIndex(tmp_path / "index") as running:
        running.add("child", "2.0", {"child.py": "answer = 42"})
        yield running


class Box:
    """What a box can do: speak HTTP to the gateway's socket."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def get(self, path: str, *, method: str = "GET", part: str | None = None) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("gateway", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        with contextlib.closing(connection):
            connection.sock.connect(str(self._gateway.socket))
            connection.request(method, path, headers={"Range": part} if part else {})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())

    def status(self, path: str) -> int:
        return self.get(path)[0]

    def files(self, name: str, *, index: int = 0) -> list[dict[str, Any]]:
        status, body, headers = self.get(f"/{index}/simple/{name}/")
        assert (status, headers["Content-Type"]) == (200, "application/vnd.pypi.simple.v1+json")
        found: list[dict[str, Any]] = json.loads(body)["files"]
        return found


@contextlib.contextmanager
def _gateway(settings: IndexSettings, folder: Path) -> Iterator[tuple[Gateway, Box]]:
    with Gateway(settings, folder, patience=IMPATIENT) as gateway:
        yield gateway, Box(gateway)


def _local(*indexes: str, find_links: tuple[str, ...] = ()) -> IndexSettings:
    return IndexSettings(indexes=tuple(Index(url) for url in indexes), find_links=find_links, timeout_s=5)


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_page_tells_all_that_the_index_tells(index: LocalIndex, tmp_path: Path, form: Any) -> None:
    wheel = index.wheels("child")[0]
    index.form, index.tells_metadata, index.yanked = form, True, {wheel.name: "it & broke"}
    with _gateway(index.settings(), tmp_path) as (_, box):
        (file,) = box.files("child")
    assert file["filename"] == wheel.name
    assert file["hashes"] == {"sha256": sha256_of(wheel)}
    assert file["yanked"] == "it & broke"
    assert set(file["core-metadata"]) == {"sha256"}
    assert file.get("size") == (wheel.stat().st_size if form == "json" else None)


def test_a_file_is_served_whole_in_part_and_its_metadata_alone(index: LocalIndex, tmp_path: Path) -> None:
    index.tells_metadata = True
    content = index.wheels("child")[0].read_bytes()
    with _gateway(index.settings(), tmp_path) as (_, box):
        address = box.files("child")[0]["url"]
        assert box.get(address)[:2] == (200, content)
        status, part, headers = box.get(address, part="bytes=10-19")
        assert (status, part) == (206, content[10:20])
        assert headers["Content-Range"] == f"bytes 10-19/{len(content)}"
        assert box.get(address, part="bytes=-22")[:2] == (206, content[-22:])
        status, body, headers = box.get(address, method="HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(len(content)))
        assert box.get(f"{address}.metadata")[1].startswith(b"Metadata-Version")


def test_a_file_of_this_machine_is_served_in_the_same_way(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "child", "2.0")
    content = wheel.read_bytes()
    with _gateway(_local(find_links=(str(wheel.parent),)), tmp_path) as (gateway, box):
        page = box.get("/links/0/")[1].decode()
        address = page.partition('href="')[2].partition("#")[0]
        assert f"#sha256={sha256_of(wheel)}" in page
        assert box.get(address)[:2] == (200, content)
        assert box.get(address, part="bytes=-22")[:2] == (206, content[-22:])
        assert box.get(address, part=f"bytes={len(content)}-")[0] == 416
        assert box.status(f"{address}.metadata") == 404
        found = Origin(None, wheel.as_uri(), wheel.name, sha256_of(wheel), len(content))
        assert gateway.origin(f"http://box:1{address}") == found


def test_an_index_of_plain_files_may_keep_its_wheels_elsewhere(index: LocalIndex, tmp_path: Path) -> None:
    wheel = index.wheels("child")[0]
    with _gateway(_local(index.write_as_folder(tmp_path / "mirror")), tmp_path) as (gateway, box):
        (file,) = box.files("child")
        assert (file["size"], "upload-time" in file) == (wheel.stat().st_size, True)
        assert box.get(file["url"])[1] == wheel.read_bytes()
        found = Origin(0, wheel.as_uri(), wheel.name, sha256_of(wheel), wheel.stat().st_size)
        assert gateway.origin(file["url"]) == found
        assert box.status("/0/simple/unknown/") == 404
        assert gateway.faults == []


def test_a_local_page_that_leads_out_of_its_index_is_not_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "mirror", tmp_path / "outside"
    make_wheel(outside, "child", "2.0")
    (outside / "index.html").write_text('<a href="child-2.0-py3-none-any.whl">child</a>')
    root.mkdir()
    (root / "child").symlink_to(outside)
    with _gateway(_local(root.as_uri()), tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 502
        assert [fault.url for fault in gateway.faults] == [root.as_uri()]


def test_only_files_named_as_packages_are_served(tmp_path: Path) -> None:
    page = tmp_path / "mirror" / "child" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="file:///etc/passwd">child-1.0-py3-none-any.whl</a><a href="/etc/hosts">x</a>')
    with _gateway(_local(page.parent.parent.as_uri()), tmp_path) as (_, box):
        assert box.files("child") == []


def test_a_page_from_the_network_cannot_name_files_of_this_machine(index: LocalIndex, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "private", "child", "3.0")
    page = make_wheel(index.folder, "page", "1.0").with_name("page.whl")
    page.write_text(f'<a href="{wheel.as_uri()}">x</a><a href="/files/child-2.0-py3-none-any.whl">y</a>')
    settings = _local(find_links=(index.links_url,))
    index.redirects["/links"] = "/files/page.whl"
    with _gateway(settings, tmp_path) as (_, box):
        assert "child-3.0" not in box.get("/links/0/")[1].decode()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/9/simple/child/",
        "/links/9/",
        "/0/simple/../../etc/passwd",
        "/0/simple/%2e%2e%2fchild/",
        "/0/simple/Child/",
        "/0/simple/child--x/",
        "/0/simple/child/../",
        "/0/file/" + "0" * 32 + "/child-2.0-py3-none-any.whl",
        "http://elsewhere.test/0/simple/child/",
        "//elsewhere.test/x",
    ],
)
def test_nothing_else_can_be_asked_for(index: LocalIndex, tmp_path: Path, path: str) -> None:
    with _gateway(index.settings(), tmp_path) as (_, box):
        assert box.status(path) == 404
        assert index.asked == []


def test_a_token_is_good_for_its_own_file_only(index: LocalIndex, tmp_path: Path) -> None:
    index.add("other", "1.0")
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        child, other = box.files("child")[0]["url"], box.files("other")[0]["url"]
        mixed = child.rpartition("/")[0] + "/" + other.rpartition("/")[2]
        assert box.status(mixed) == 404
        assert box.status(child + ".metadata") == 404
        assert gateway.origin("http://box:1/0/file/" + "0" * 32 + "/child-2.0-py3-none-any.whl") is None


def test_the_box_sees_neither_the_login_nor_the_address(index: LocalIndex, tmp_path: Path) -> None:
    index.login = ("bob", SECRET)
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        status, page, headers = box.get("/0/simple/child/")
        address = json.loads(page)["files"][0]["url"]
        assert (status, box.status(address)) == (200, 200)
        assert SECRET not in page.decode() + str(headers) + str(gateway.origin(address))
        assert index.root not in page.decode() + str(headers)


def test_a_login_is_not_carried_to_where_an_index_redirects_to(index: LocalIndex, tmp_path: Path) -> None:
    with LocalIndex(tmp_path / "other") as other:
        other.add("child", "2.0")
        index.login = ("bob", SECRET)
        index.redirects["/simple/child/"] = f"{other.url}/child/".replace("127.0.0.1", "localhost")
        with _gateway(index.settings(), tmp_path) as (_, box):
            assert len(box.files("child")) == 1
        assert index.authorizations[-1] is not None
        assert other.authorizations == [None]


def test_a_wrong_login_is_a_fault_that_does_not_repeat_it(index: LocalIndex, tmp_path: Path) -> None:
    index.login = ("bob", SECRET)
    settings = replace(index.settings(), indexes=(Index(index.url, ("bob", f"{SECRET}!")),))
    with _gateway(settings, tmp_path) as (gateway, box):
        status, body, _ = box.get("/0/simple/child/")
        (fault,) = gateway.faults
        assert (status, fault.url, fault.reason) == (502, index.url, "it answers 401: it refuses the login")
        assert fault.remedy is not None
        assert "correct the login" in fault.remedy
        assert SECRET not in body.decode() + repr(gateway.faults)


def test_a_redirect_leads_nowhere_but_to_http(index: LocalIndex, tmp_path: Path) -> None:
    index.redirects["/simple/child/"] = "file:///etc/passwd"
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 502
        assert gateway.faults[0].reason == "it redirects to an address that is not followed"


def test_no_such_package_is_no_fault(index: LocalIndex, tmp_path: Path) -> None:
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        assert box.status("/0/simple/unknown/") == 404
        assert gateway.faults == []


def test_an_index_that_is_busy_for_a_moment_is_asked_again(index: LocalIndex, tmp_path: Path) -> None:
    index.busy = 2
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        assert len(box.files("child")) == 1
        assert (len(index.asked), gateway.faults) == (3, [])


def test_an_index_that_stays_busy_is_given_up_on(index: LocalIndex, tmp_path: Path) -> None:
    index.busy = -1
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        assert [box.status(f"/0/simple/{name}/") for name in ("child", "child", "other")] == [502, 502, 502]
        assert len(index.asked) == IMPATIENT.attempts
        assert gateway.faults[0] == IndexFault(index.url, "it answers 503")


def _unreachable(index: LocalIndex) -> None:
    index.close()


def _silent(index: LocalIndex) -> None:
    index.form = "silent"


def _garbage(index: LocalIndex) -> None:
    index.form = "garbage"


def _half(index: LocalIndex) -> None:
    index.form = "half"


def _endless_redirect(index: LocalIndex) -> None:
    index.redirects["/simple/child/"] = "/simple/child/"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("go_wrong", "reason", "package"),
    [
        (_unreachable, "no connection: Connection refused", None),
        (_silent, "no answer within 0.1 s", None),
        (_garbage, "it answers with a page that links to no package", "child"),
        (_half, "it answers with half a page, or with something that is no JSON", "child"),
        (_endless_redirect, "it redirects without end", "child"),
    ],
)
def test_an_index_that_does_not_do_its_part_is_a_fault_and_says_how(
    index: LocalIndex, tmp_path: Path, go_wrong: Callable[[LocalIndex], None], reason: str, package: str | None
) -> None:
    settings = replace(index.settings(), timeout_s=0.1)
    go_wrong(index)
    with _gateway(settings, tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 502
        assert gateway.faults == [IndexFault(index.url, reason, package=package)]


def test_a_page_without_end_is_not_read_to_its_end(
    index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.environments.indexes.upstream.MOST_PAGE_BYTES", 100)
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 502
        assert gateway.faults[0].reason == "its page has more than 100 bytes"


@pytest.mark.slow
def test_a_page_that_comes_byte_by_byte_is_not_waited_for_without_end(index: LocalIndex, tmp_path: Path) -> None:
    index.drips = "/simple/"
    with Gateway(index.settings(), tmp_path, patience=Patience(attempts=1, page_s=0.2)) as gateway:
        assert Box(gateway).status("/0/simple/child/") == 502
        assert gateway.faults == [IndexFault(index.url, "it sends too slowly: its answer was not here within 0.2 s")]


def test_a_file_that_breaks_off_breaks_off_for_the_box_and_can_be_asked_for_again(
    index: LocalIndex, tmp_path: Path
) -> None:
    content = index.wheels("child")[0].read_bytes()
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        address = box.files("child")[0]["url"]
        index.breaks_off = 1
        with pytest.raises(http.client.IncompleteRead):
            box.get(address)
        assert gateway.faults[0].reason == "it broke off: the other side hung up"
        assert box.get(address)[1] == content
    assert gateway.faults == []


def test_an_index_that_is_not_there_is_a_fault_and_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with _gateway(_local(gone.as_uri(), find_links=(str(gone),)), tmp_path) as (gateway, box):
        assert box.status("/links/0/") == 200
        assert gateway.faults == []
        assert box.status("/0/simple/child/") == 502
        correct = "make it, or correct the index's address"
        assert gateway.faults == [IndexFault(gone.as_uri(), "the folder does not exist", correct)]


def test_offline_only_what_is_on_this_machine_is_looked_at(index: LocalIndex, tmp_path: Path) -> None:
    settings = _local(index.url, index.write_as_folder(tmp_path / "mirror"), find_links=(index.links_url,))
    with _gateway(replace(settings, offline=True), tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 404
        assert b".whl" not in box.get("/links/0/")[1]
        assert len(box.files("child", index=1)) == 1
        assert (gateway.faults, index.asked) == ([], [])


def test_a_proxy_is_taken_and_its_login_is_not_repeated(index: LocalIndex, tmp_path: Path) -> None:
    through = replace(
        index.settings(),
        indexes=(Index("http://index.test/simple"),),
        proxies={"http": index.root.replace("//", f"//bob:{SECRET}@")},
    )
    with _gateway(through, tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 200
        assert index.asked == ["GET http://index.test/simple/child/"]
        index.close()
        assert box.status("/0/simple/other/") == 502
        assert SECRET not in repr(gateway.faults)


@pytest.mark.parametrize("excepted", ["127.0.0.1", "*", "localhost, 127.0.0.0/8", "127.0.0.1:{port}"])
def test_hosts_that_are_excepted_are_reached_without_the_proxy(
    index: LocalIndex, tmp_path: Path, excepted: str
) -> None:
    no = excepted.replace("{port}", index.root.rpartition(":")[2])
    settings = replace(index.settings(), proxies={"http": "http://127.0.0.1:9", "no": no})
    with _gateway(settings, tmp_path) as (_, box):
        assert len(box.files("child")) == 1


def test_what_the_process_inherited_is_not_asked(
    index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    with _gateway(index.settings(), tmp_path) as (_, box):
        assert len(box.files("child")) == 1


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    settings = replace(_local("https://127.0.0.1:9/simple"), certificates=tmp_path / "gone.pem")
    with _gateway(settings, tmp_path) as (gateway, box):
        assert box.status("/0/simple/child/") == 502
        assert str(tmp_path / "gone.pem") in gateway.faults[0].reason


def test_a_client_that_keeps_silent_is_dropped(
    index: LocalIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _gateway(index.settings(), tmp_path) as (gateway, box), socket.socket(socket.AF_UNIX) as client:
        with monkeypatch.context() as impatient:
            impatient.setattr(gateway_module._Connection, "timeout", 0.1)
            client.settimeout(60)
            client.connect(str(gateway.socket))
            client.sendall(b"GET /0/simp")
            assert client.recv(100) == b""
        assert len(box.files("child")) == 1


def test_clients_that_take_all_connections_end_with_the_gateway(index: LocalIndex, tmp_path: Path) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as clients:
        with _gateway(index.settings(), tmp_path) as (gateway, _):
            for _ in range(gateway_module.MOST_CONNECTIONS + 8):
                client = clients.enter_context(socket.socket(socket.AF_UNIX))
                client.connect(str(gateway.socket))
            assert threading.active_count() <= before + gateway_module.MOST_CONNECTIONS + 1
        assert not gateway.socket.exists()
    assert threading.active_count() <= before


def test_a_folder_with_a_long_path_serves_as_well(index: LocalIndex, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with Gateway(index.settings(), folder, patience=IMPATIENT) as gateway:
        assert gateway.socket.is_socket()
        assert gateway.socket.stat().st_mode & 0o777 == 0o666
        (tmp_path / "short").symlink_to(gateway.socket)


def _asked_for(index: LocalIndex, *names: str) -> bool:
    """Whether exactly these pages were asked for; what is still to come is waited for."""
    expected = sorted(f"GET /simple/{name}/" for name in names)
    return wait_until(lambda: sorted(index.asked) == expected)


def test_a_page_that_is_expected_is_asked_for_before_the_box_asks_and_once(index: LocalIndex, tmp_path: Path) -> None:
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        gateway.expect(["child", "unknown"])
        assert _asked_for(index, "child", "unknown")
        assert [file["filename"] for file in box.files("child")] == [index.wheels("child")[0].name]
        assert box.status("/0/simple/unknown/") == 404
        assert _asked_for(index, "child", "unknown")
        assert (box.status("/0/simple/child/"), gateway.faults) == (200, [])
        assert _asked_for(index, "child", "child", "unknown")


def test_nothing_is_asked_for_twice_however_soon_the_box_asks(index: LocalIndex, tmp_path: Path) -> None:
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        gateway.expect(["child"])
        assert len(box.files("child")) == 1
        assert wait_until(lambda: not _page_threads())
    assert _asked_for(index, "child")


def test_what_was_expected_in_vain_is_told_only_when_the_box_asks(index: LocalIndex, tmp_path: Path) -> None:
    index.form = "garbage"
    with _gateway(index.settings(), tmp_path) as (gateway, box):
        gateway.expect(["child"])
        assert wait_until(lambda: bool(index.asked) and not _page_threads())
        assert gateway.faults == []
        assert box.status("/0/simple/child/") == 502
        assert [fault.url for fault in gateway.faults] == [index.url]
        assert _asked_for(index, "child")


def _page_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "page"]


@pytest.mark.parametrize(("goes_on", "asked"), [(False, ["other"]), (True, ["child", "other"])])
def test_the_next_index_is_asked_for_what_is_expected_as_a_resolver_would(
    index: LocalIndex, tmp_path: Path, goes_on: bool, asked: list[str]
) -> None:
    with LocalIndex(tmp_path / "public") as public:
        settings = replace(index.settings(), indexes=(Index(index.url), Index(public.url)), goes_on=goes_on)
        with _gateway(settings, tmp_path) as (gateway, _):
            gateway.expect(["child", "other"])
            assert _asked_for(index, "child", "other")
            assert _asked_for(public, *asked)
        assert _asked_for(public, *asked)


@pytest.mark.parametrize("goes_on", [True, False])
def test_no_index_is_asked_for_what_is_expected_after_one_that_failed(
    index: LocalIndex, tmp_path: Path, goes_on: bool
) -> None:
    with LocalIndex(tmp_path / "private", form="garbage") as private:
        settings = replace(index.settings(), indexes=(Index(private.url), Index(index.url)), goes_on=goes_on)
        with _gateway(settings, tmp_path) as (gateway, box):
            gateway.expect(["child"])
            assert _asked_for(private, "child")
            assert box.status("/0/simple/child/") == 502
        assert index.asked == []


def test_nothing_more_is_asked_for_ahead_when_the_gateway_is_closed() -> None:
    read, answers = list[int](), threading.Event()

    def reading(number: int, _: str) -> bytes:
        read.append(number)
        answers.wait(20)
        return b""

    ahead = PagesAhead(reading, indexes=2, goes_on=True)
    ahead.begin(["child"])
    assert wait_until(lambda: read == [0])
    ahead.stop()
    answers.set()
    assert wait_until(lambda: not _page_threads())
    assert read == [0]


@contextlib.contextmanager
def _relay(gateway: Gateway) -> Iterator[str]:
    """Carries loopback connections to the gateway's socket, as the relay in a box does."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    ends: list[socket.socket] = [listener]

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                ours = listener.accept()[0]
                theirs = socket.socket(socket.AF_UNIX)
                ends.extend((ours, theirs))
                theirs.connect(str(gateway.socket))
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _resolve(gateway: Gateway, settings: IndexSettings, folder: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
    with _relay(gateway) as address:
        urls = [f"{address}/{number}/simple/" for number in range(len(settings.indexes))]
        options = ["--default-index", urls[-1], *(part for url in urls[:-1] for part in ("--index", url))]
        for number in range(len(settings.find_links)):
            options += ["--find-links", f"{address}/links/{number}/"]
        command = [uv.find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-config", "--no-cache", "--no-build"]
        return subprocess.run(
            [*command, "--python", sys.executable, "--format", "pylock.toml", *options],
            input="\n".join(wanted),
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "UV_HTTP_RETRIES": "1"},
            capture_output=True,
            text=True,
            check=False,
        )


def _locked(answer: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert answer.returncode == 0, answer.stderr
    packages = tomllib.loads(answer.stdout)["packages"]
    return {
        f"{package['name']}=={package['version']}": package["wheels"][0]["hashes"]["sha256"] for package in packages
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "html"])
@pytest.mark.parametrize("tells_all", [True, False])
def test_uv_resolves_through_the_gateway(index: LocalIndex, tmp_path: Path, form: Any, tells_all: bool) -> None:
    index.form, index.tells_metadata, index.tells_hashes = form, tells_all, tells_all
    parent = index.add("parent", "1.0", requires=["child>=2", "house"])
    house = make_wheel(tmp_path / "house", "house", "0.1")
    yanked = index.add("child", "3.0")
    index.yanked[yanked.name] = "broken"
    settings = replace(index.settings(), find_links=(str(house.parent),))
    with _gateway(settings, tmp_path) as (gateway, _):
        answer = _resolve(gateway, settings, tmp_path, "parent")
        assert gateway.faults == []
    child = index.folder / "child-2.0-py3-none-any.whl"
    assert _locked(answer) == {
        "parent==1.0": sha256_of(parent),
        "child==2.0": sha256_of(child),
        "house==0.1": sha256_of(house),
    }


@pytest.mark.slow
def test_the_first_index_that_has_a_package_is_the_only_one_asked_for_it(index: LocalIndex, tmp_path: Path) -> None:
    with LocalIndex(tmp_path / "public") as public:
        public.add("child", "99.0")
        public.add("other", "1.0")
        settings = replace(index.settings(), indexes=(Index(index.url), Index(public.url)))
        with _gateway(settings, tmp_path) as (gateway, _):
            answer = _resolve(gateway, settings, tmp_path, "child", "other")
    assert set(_locked(answer)) == {"child==2.0", "other==1.0"}


@pytest.mark.slow
def test_an_index_that_is_down_ends_a_resolution_that_a_later_index_could_answer(
    index: LocalIndex, tmp_path: Path
) -> None:
    with LocalIndex(tmp_path / "private") as private:
        private.busy = -1
        settings = replace(index.settings(), indexes=(Index(private.url), Index(index.url)))
        with _gateway(settings, tmp_path) as (gateway, _):
            answer = _resolve(gateway, settings, tmp_path, "child")
            assert gateway.faults == [IndexFault(private.url, "it answers 503")]
        assert len(private.asked) == IMPATIENT.attempts
    assert answer.returncode != 0


@pytest.mark.slow
def test_this_machines_own_indexes_answer_through_the_gateway(tmp_path: Path) -> None:
    settings = read_index_settings(os.environ, home=Path.home())
    with Gateway(settings, tmp_path) as gateway:
        answer = _resolve(gateway, settings, tmp_path, "idna")
        assert gateway.faults == []
    assert [name.partition("==")[0] for name in _locked(answer)] == ["idna"]
