"""Results of known callables, as data, and the list of all names that the analysis knows.

A value keeps no other names than these and their beginnings, which bounds the analysis.
"""

from __future__ import annotations

from typing import Final

from sandbox.tools.risk import rule_names
from sandbox.tools.risk.rule_names import name_set

DECODERS: Final = name_set("""
    base64: b64decode urlsafe_b64decode standard_b64decode b32decode b16decode b85decode a85decode decodebytes
    binascii: unhexlify a2b_hex a2b_base64
    builtins.bytes: fromhex
    builtins.bytearray: fromhex
    zlib: decompress
    bz2: decompress
    lzma: decompress
    gzip: decompress
    codecs: decode
    marshal: loads load
    pickle: loads load
    zlib.decompressobj(): decompress
    cryptography.fernet.Fernet(): decrypt
""")
DOWNLOADS: Final = name_set("""
    urllib.request: urlopen urlretrieve
    requests: get post request Session
    httpx: get post request stream Client AsyncClient
    aiohttp: ClientSession
    socket: socket create_connection create_server
    urllib3: PoolManager request
    http.client: HTTPConnection HTTPSConnection
""")
LISTINGS: Final = name_set("""
    os: walk listdir scandir
    glob: glob iglob
    pathlib.Path(): glob rglob iterdir walk
""")
SAME_PATH: Final = name_set("""
    os.path: expanduser expandvars abspath realpath normpath dirname
    pathlib.Path(): expanduser resolve absolute
    builtins: str
    os: fspath
""")
"""Functions whose result is the same path, as far as an analysis cares."""
INSIDE_PATH: Final = name_set("""
    pathlib.Path(): glob rglob iterdir walk with_suffix with_name
    os: walk listdir scandir
    glob: glob iglob
""")
"""Functions whose results lie in or next to a path that they are given."""
PATH_JOINS: Final = name_set("""
    os.path: join
    posixpath: join
    pathlib: Path PosixPath PurePath PurePosixPath
    pathlib.Path(): joinpath
""")
HOMES: Final = name_set("""
    pathlib.Path: home
""")
SITE_FOLDERS: Final = name_set("""
    site: getsitepackages getusersitepackages
    sysconfig: get_path get_paths
""")
NAMESPACES: Final = name_set("""
    builtins: vars globals locals
""")
OTHERS: Final = name_set("""
    builtins: isinstance issubclass getattr chr map filter reversed dict list tuple str repr bytes bytearray ord print
    operator: attrgetter methodcaller
    functools: partial
    jinja2: Template Environment().from_string
    mako.template: Template
    os: getenv path
    os.environ: get pop
    sys: modules
    json: dumps
    numpy: load
    torch: load
    io: BytesIO StringIO
    importlib.util: spec_from_file_location
    shutil: unpack_archive
    socket.socket(): fileno
    yaml: SafeLoader CSafeLoader BaseLoader CBaseLoader Loader UnsafeLoader FullLoader
""")

MODULE_ALIASES: Final = {"pathlib.PosixPath": "pathlib.Path", "pathlib.PurePath": "pathlib.Path"}


def _with_beginnings(names: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    for name in names:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            beginning = ".".join(parts[:count])
            found |= {beginning, beginning.removesuffix("()")}
    return frozenset(found)


KNOWN: Final = _with_beginnings(
    frozenset(rule_names.RULES)
    | DECODERS
    | DOWNLOADS
    | LISTINGS
    | SAME_PATH
    | INSIDE_PATH
    | PATH_JOINS
    | HOMES
    | SITE_FOLDERS
    | NAMESPACES
    | OTHERS
    | rule_names.WRITES
    | rule_names.OPENERS
    | rule_names.EXTRACTORS
    | rule_names.ENVIRONMENT
    | rule_names.ENVIRONMENT_USES
    | rule_names.SENSITIVE_MODULES
    | {f"{name}()" for name in NAMESPACES | LISTINGS | rule_names.OPENERS}
)
"""All names that a value may stand for."""
