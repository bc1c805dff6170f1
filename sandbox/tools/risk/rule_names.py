"""Effects of known callables, as data: rules by name, and groups of names that a rule looks at more closely.

A name is written from its module on: `os.system`. `()` stands for the result of a call, so `subprocess.Popen().wait`
is a method of a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandbox.tools.risk.model import RiskKind, RiskLevel


@dataclass(frozen=True, slots=True)
class Rule:
    """The effect of a callable, and how bad that is at least."""

    kind: RiskKind
    level: RiskLevel
    reason: str


def _rules(kind: RiskKind, level: RiskLevel, reason: str, names: str) -> dict[str, Rule]:
    rule = Rule(kind, level, reason)
    return dict.fromkeys(expand_names(names), rule)


def expand_names(names: str) -> list[str]:
    """Return the names of a table: `os: remove unlink` on a line is `os.remove` and `os.unlink`."""
    found: list[str] = []
    for line in names.strip().splitlines():
        module, _, members = line.strip().partition(": ")
        found += [f"{module}.{member}" for member in members.split()]
    return found


def name_set(names: str) -> frozenset[str]:
    return frozenset(expand_names(names))


SHELLS: Final = name_set("""
    os: system popen
    posix: system
    subprocess: getoutput getstatusoutput
    asyncio: create_subprocess_shell
    asyncio.subprocess: create_subprocess_shell
    paramiko.SSHClient(): exec_command
    ctypes.CDLL(): system popen
    ctypes.cdll.LoadLibrary(): system popen
""")
"""Functions that hand a command to a shell."""

SHELL_BY_KEYWORD: Final = name_set("""
    subprocess: run call check_call check_output Popen
""")
"""Functions that hand a command to a shell if `shell` is true."""

CODE: Final = name_set("""
    builtins: exec eval compile
    code: InteractiveInterpreter().runsource InteractiveInterpreter().runcode InteractiveConsole().push
""")
"""Functions that turn text into code."""

IMPORTS: Final = name_set("""
    builtins: __import__
    importlib: import_module __import__
    importlib._bootstrap: _gcd_import
    pydoc: locate
    pkgutil: resolve_name
""")

UNPICKLERS: Final = name_set("""
    pickle: load loads Unpickler _loads _load _Unpickler
    _pickle: load loads Unpickler
    cPickle: load loads Unpickler
    marshal: load loads
    shelve: open Shelf DbfilenameShelf
    dill: load loads
    cloudpickle: load loads
    joblib: load
    pandas: read_pickle
    jsonpickle: decode loads
    yaml: unsafe_load unsafe_load_all full_load full_load_all
    multiprocessing.connection: Client Listener
    multiprocessing.reduction.ForkingPickler: loads
""")

YAML_LOADS: Final = name_set("""
    yaml: load load_all
""")
SAFE_LOADERS: Final = name_set("""
    yaml: SafeLoader CSafeLoader BaseLoader CBaseLoader
""")

DELETIONS: Final = name_set("""
    os: remove unlink rmdir removedirs truncate
    shutil: rmtree move
    pathlib.Path(): unlink rmdir
""")

WRITES: Final = name_set("""
    pathlib.Path(): write_text write_bytes touch mkdir rename replace symlink_to hardlink_to chmod
    os: mkdir makedirs rename replace symlink link chmod chown lchown mkfifo mknod
    shutil: copy copy2 copyfile copytree move chown
    urllib.request: urlretrieve
""")
"""Functions that change files; they count only outside the working folder."""

OPENERS: Final = name_set("""
    builtins: open
    io: open FileIO
    codecs: open
    gzip: open
    bz2: open
    lzma: open
    os: open
    pathlib.Path(): open
    tarfile: open
    zipfile: ZipFile
""")

EXTRACTORS: Final = name_set("""
    tarfile.open(): extractall extract
    tarfile.TarFile(): extractall extract
    zipfile.ZipFile(): extractall extract
    shutil: unpack_archive
""")

ENVIRONMENT: Final = name_set("""
    os: environ environb
    posix: environ
""")

ENVIRONMENT_USES: Final = name_set("""
    builtins: dict list str repr sorted
    json: dumps
""")
"""Functions that copy or show what they are given."""

RULES: Final[dict[str, Rule]] = {
    **_rules("process", "medium", "runs a command in a shell", "\n".join(
        f"{name.rpartition('.')[0]}: {name.rpartition('.')[2]}" for name in sorted(SHELLS)
    )),
    **_rules("process", "medium", "runs a program", """
        subprocess: run call check_call check_output Popen
        os: popen2 popen3 popen4 execl execle execlp execlpe execv execve execvp execvpe
        os: spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe posix_spawn posix_spawnp startfile
        posix: execv execve posix_spawn posix_spawnp
        _posixsubprocess: fork_exec
        pty: spawn
        asyncio: create_subprocess_exec
        asyncio.subprocess: create_subprocess_exec
        asyncio.get_event_loop(): subprocess_exec subprocess_shell
        asyncio.get_running_loop(): subprocess_exec subprocess_shell
        pexpect: spawn run
        plumbum.local: cmd
        invoke: run
        fabric.Connection(): run sudo local
        distutils.spawn: spawn
        psutil: Popen
        trio: run_process
        anyio: run_process open_process
        os: fork forkpty
        pty: fork
        ctypes.CDLL(): execve execv fork
        webbrowser: open open_new open_new_tab
    """),
    **_rules("process", "medium", "controls other processes", """
        os: kill killpg ptrace setuid setgid setresuid
        psutil.Process(): kill terminate suspend
        ctypes.CDLL(): ptrace kill setuid
    """),
    **_rules("dynamic_code", "medium", "turns text into code", """
        builtins: exec eval compile
        code: interact InteractiveInterpreter InteractiveConsole
        codeop: compile_command
        timeit: timeit repeat
        cProfile: run runctx
        profile: run runctx
        pdb: run runeval
        trace.Trace(): run runctx
    """),
    **_rules("dynamic_code", "medium", "runs a file as code", """
        runpy: run_path run_module
        importlib.util: spec_from_file_location module_from_spec
        importlib.machinery: SourceFileLoader SourcelessFileLoader ExtensionFileLoader
        imp: load_source load_module load_compiled
        zipimport: zipimporter
    """),
    **_rules("dynamic_code", "medium", "builds a function from a code object", """
        types: FunctionType CodeType
    """),
    **_rules("dynamic_code", "medium", "imports a module whose name is computed", """
        builtins: __import__
        importlib: import_module __import__
        importlib._bootstrap: _gcd_import
        pydoc: locate
        pkgutil: resolve_name
    """),
    **_rules("network", "low", "uses the network", """
        urllib.request: urlopen urlretrieve Request build_opener
        urllib.request.build_opener(): open
        urllib2: urlopen
        http.client: HTTPConnection HTTPSConnection
        socket: create_connection gethostbyname gethostbyname_ex gethostbyaddr getaddrinfo
        socket.socket(): connect connect_ex sendto send sendall
        asyncio: open_connection
        ftplib: FTP FTP_TLS
        smtplib: SMTP SMTP_SSL
        imaplib: IMAP4 IMAP4_SSL
        poplib: POP3 POP3_SSL
        nntplib: NNTP
        telnetlib: Telnet
        xmlrpc.client: ServerProxy
        requests: get post put patch delete head options request Session session
        httpx: get post put patch delete head options request stream Client AsyncClient
        httpx2: get post put patch delete request stream Client AsyncClient
        aiohttp: ClientSession request
        urllib3: PoolManager request HTTPConnectionPool HTTPSConnectionPool ProxyManager
        pycurl: Curl
        websocket: create_connection WebSocketApp
        websockets: connect
        websockets.sync.client: connect
        paramiko: SSHClient Transport
        fabric: Connection
        asyncssh: connect
        dns.resolver: resolve query
        boto3: client resource
        redis: Redis from_url
        pymongo: MongoClient
        psycopg2: connect
        telebot: TeleBot
        ssl: get_server_certificate
        multiprocessing.connection: Client
    """),
    **_rules("network", "medium", "waits for connections", """
        socket: create_server
        socket.socket(): bind listen accept
        asyncio: start_server
        http.server: HTTPServer ThreadingHTTPServer test
        socketserver: TCPServer UDPServer ThreadingTCPServer
        xmlrpc.server: SimpleXMLRPCServer
        multiprocessing.connection: Listener
        multiprocessing.managers: BaseManager
    """),
    **_rules("files", "low", "deletes files", "\n".join(
        f"{name.rpartition('.')[0]}: {name.rpartition('.')[2]}" for name in sorted(DELETIONS - {"shutil.move"})
    )),
    **_rules("deserialization", "medium", "rebuilds objects from data that can run code", "\n".join(
        f"{name.rpartition('.')[0]}: {name.rpartition('.')[2]}" for name in sorted(UNPICKLERS | YAML_LOADS)
    )),
    **_rules("native", "medium", "calls native code or reads raw memory", """
        ctypes: CDLL PyDLL WinDLL OleDLL CFUNCTYPE PYFUNCTYPE memmove memset string_at wstring_at cast pythonapi
        ctypes.cdll: LoadLibrary
        ctypes.windll: LoadLibrary
        ctypes.util: find_library
        _ctypes: dlopen dlsym call_function
        cffi: FFI
        cffi.FFI(): dlopen verify cdef
        _cffi_backend: FFI load_library
        mmap: PROT_EXEC
        numpy.ctypeslib: load_library
    """),
    **_rules("credentials", "medium", "asks for stored passwords", """
        keyring: get_password get_credential
        getpass: getpass
        netrc: netrc
        browser_cookie3: load chrome firefox
        win32crypt: CryptUnprotectData
        secretstorage: get_default_collection
        pwd: getpwall
        spwd: getspall getspnam
    """),
    **_rules("credentials", "medium", "goes through the environment variables", """
        os.environ: items values
        os.environb: items values
        posix.environ: items values
    """),
    **_rules("credentials", "low", "copies the environment variables", """
        os.environ: copy keys
        os.environb: copy keys
    """),
}  # fmt: skip

REFLECTIVE: Final = {
    "__subclasses__": "goes through all classes of the interpreter",
    "__globals__": "reaches into the globals of a function",
    "__builtins__": "reaches for the built-in functions",
    "f_globals": "reaches into the globals of a frame",
    "f_builtins": "reaches for the built-in functions",
}
"""Attributes by which code reaches what it does not import."""

METHODS: Final[dict[str, Rule]] = {
    "exec_module": Rule("dynamic_code", "medium", "runs a file as code"),
    "exec_command": Rule("process", "medium", "runs a command on another machine"),
    "_exec": Rule("dynamic_code", "medium", "turns text into code"),
    "load_extension": Rule("native", "medium", "loads a native library"),
}
"""Methods that say enough by their names, for objects of unknown types."""

SENSITIVE_MODULES: Final = frozenset({
    "builtins", "os", "posix", "subprocess", "sys", "importlib", "ctypes", "socket", "pickle", "shutil", "pty",
})  # fmt: skip
