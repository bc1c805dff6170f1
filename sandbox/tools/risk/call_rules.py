"""Rules for calls whose risk depends on their arguments, by the name of what is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.tools.risk import flow_names, rule_names
from sandbox.tools.risk.call_site import CallSite
from sandbox.tools.risk.findings import shown
from sandbox.tools.risk.folding import UNKNOWN, is_whole
from sandbox.tools.risk.model import RiskLevel
from sandbox.tools.risk.texts import is_destructive_command, is_outside, is_secret_name, is_sensitive_place
from sandbox.tools.risk.value import Value

_WRITING: Final = frozenset("wax+")


def _judge_shell(place: CallSite, name: str) -> None:
    _judge_command(place, name, is_shell=True)


def _judge_program(place: CallSite, name: str) -> None:
    _judge_command(place, name, is_shell=place.is_true("shell"))


def _judge_command(place: CallSite, name: str, *, is_shell: bool) -> None:
    command = place.argument(0, "args", "cmd", "command")
    words = [each for text in command.texts for each in (text if isinstance(text, tuple) else (text,))]
    texts = [each for each in words if isinstance(each, str)]
    level: RiskLevel = "medium"
    reason = "runs a command in a shell" if is_shell else "runs a program"
    if any(is_destructive_command(each) for each in texts):
        level, reason = "high", "runs a dangerous command"
    elif "decoded" in command.marks:
        level, reason = "high", "runs a command that is decoded first"
    elif "remote" in command.marks:
        level, reason = "high", "runs a command that comes over the network"
    elif is_shell and not (texts and all(map(is_whole, texts))):
        level, reason = "high", "runs a computed command in a shell"
    if "decoded" in command.marks:
        place.add("obfuscation", "high", f"decodes a command before running it: {name}")
    place.add("process", level, f"{reason}: {name}")


def _judge_code(place: CallSite, name: str) -> None:
    code = place.argument(0, "source", "object")
    level: RiskLevel = "medium"
    reason = "turns text into code"
    if "decoded" in code.marks:
        level, reason = "high", "turns decoded text into code"
        place.add("obfuscation", "high", f"decodes text before running it as code: {name}")
    elif "remote" in code.marks:
        level, reason = "high", "runs code that comes over the network"
    elif "argument" in code.marks:
        level, reason = "high", "runs code that may come from an argument"
    place.add("dynamic_code", level, f"{reason}: {name}")


def _judge_import(place: CallSite, name: str) -> None:
    target = place.argument(0, "name")
    if not target.whole_texts():
        level: RiskLevel = "high" if {"decoded", "remote"} & target.marks else "medium"
        place.add("dynamic_code", level, f"imports a module whose name is computed: {name}")
    elif "pieces" in target.marks:
        place.add("obfuscation", "medium", f"builds the name of a module: {shown(target.whole_texts()[0])}")


def _judge_getattr(place: CallSite, _: str) -> None:
    subject, member = place.argument(0), place.argument(1)
    texts = member.whole_texts()
    is_module = bool(subject.names & rule_names.SENSITIVE_MODULES)
    if is_module and not texts:
        level: RiskLevel = "high" if {"decoded", "remote"} & member.marks else "medium"
        place.add("dynamic_code", level, f"takes a computed name from a module: {min(subject.names)}")
    if is_module and texts and "pieces" in member.marks:
        place.add("obfuscation", "medium", f"builds the name of an attribute: {shown(texts[0])}")
    for each in texts:
        if each in rule_names.REFLECTIVE:
            place.add("dynamic_code", "medium", f"{rule_names.REFLECTIVE[each]}: {each}")


def _judge_unpickling(place: CallSite, name: str) -> None:
    data = place.argument(0)
    if name.startswith("yaml.") and not _is_unsafe_yaml(place, name):
        return
    level: RiskLevel = "high" if {"remote", "decoded", "argument"} & data.marks else "medium"
    place.add("deserialization", level, f"rebuilds objects from data that can run code: {name}")


def _is_unsafe_yaml(place: CallSite, name: str) -> bool:
    if name not in rule_names.YAML_LOADS or not place.has(1, "Loader"):
        return True
    return not place.argument(1, "Loader").names & rule_names.SAFE_LOADERS


def _judge_numpy(place: CallSite, name: str) -> None:
    if place.is_true("allow_pickle"):
        place.add("deserialization", "medium", f"rebuilds objects from data that can run code: {name}")


def _judge_torch(place: CallSite, name: str) -> None:
    if not place.is_true("weights_only"):
        place.add("deserialization", "medium", f"rebuilds objects from data that can run code: {name}")


def _judge_deletion(place: CallSite, name: str) -> None:
    is_tree = name == "shutil.rmtree"
    target = place.whole() if name.startswith("pathlib.Path()") else place.argument(0, "path")
    texts = [each for each in target.texts if isinstance(each, str)]
    level: RiskLevel = "medium" if is_tree and not _is_relative(texts) else "low"
    if "listed" in target.marks:
        level = "medium"
    if any(is_outside(each) for each in texts):
        level = "high" if is_tree or any(map(is_sensitive_place, texts)) else "medium"
    place.add("files", level, f"deletes files: {name}{_of(texts)}")


def _judge_write(place: CallSite, name: str) -> None:
    rule = rule_names.RULES.get(name)  # a download is a use of the network as well
    if rule is not None:
        place.add(rule.kind, rule.level, f"{rule.reason}: {name}")
    own = place.whole() if name.startswith("pathlib.Path()") else place.argument(0, "path", "src", "url")
    for target in (own, place.argument(1, "dst", "filename")):
        _judge_written(place, name, target)


def _judge_open(place: CallSite, name: str) -> None:
    is_method = name.startswith("pathlib.Path()")
    target = place.whole() if is_method else place.argument(0, "file", "name", "filename")
    for each in target.texts:
        if isinstance(each, str):
            place.findings.add_place(each, place.call.lineno)
    mode = place.argument(0 if is_method else 1, "mode", "flags")
    modes = [each for each in mode.texts if isinstance(each, str)]
    if any(_WRITING.intersection(each[:4]) for each in modes) or name == "os.open":
        _judge_written(place, name, target)
        if "listed" in target.marks:
            place.add("files", "medium", f"overwrites files that it finds in folders: {name}")


def _judge_template(place: CallSite, name: str) -> None:
    if not place.argument(0, "source").whole_texts():
        place.add("dynamic_code", "medium", f"renders a computed template: {name}")


def _judge_written(place: CallSite, name: str, target: Value) -> None:
    texts = [each for each in target.texts if isinstance(each, str) and is_outside(each)]
    if texts:
        level: RiskLevel = "high" if any(map(is_sensitive_place, texts)) else "medium"
        place.add("files", level, f"writes outside the working folder: {name}{_of(texts)}")


def _judge_extraction(place: CallSite, name: str) -> None:
    position = 0 if name.endswith(".extractall") else 1
    _judge_written(place, name, place.argument(position, "path", "extract_dir"))
    if {"remote"} & place.whole().marks:
        place.add("files", "medium", f"unpacks an archive that comes over the network: {name}")


def _judge_join(place: CallSite, _: str) -> None:
    for each in place.value(place.call).texts:
        if isinstance(each, str):
            place.findings.add_place(each, place.call.lineno)


def _judge_variable(place: CallSite, _: str) -> None:
    for each in place.argument(0, "key").whole_texts():
        if is_secret_name(each):
            place.add("credentials", "low", f"reads a secret from the environment: {shown(each)}")


def _judge_decoder(place: CallSite, name: str) -> None:
    if "encoded" in place.argument(0).marks:
        place.add("obfuscation", "medium", f"decodes a long literal of the source: {name}")
    if name in rule_names.UNPICKLERS:
        _judge_unpickling(place, name)


def _judge_environment_copy(place: CallSite, name: str) -> None:
    if place.argument(0).names & rule_names.ENVIRONMENT:
        level: RiskLevel = "medium" if name in ("json.dumps", "builtins.str", "builtins.repr") else "low"
        place.add("credentials", level, "hands on all environment variables")


def _judge_namespace(place: CallSite, name: str) -> None:
    if place.argument(0).names & rule_names.SENSITIVE_MODULES:
        place.add("dynamic_code", "low", f"reaches into the names of a module: {name}")


def _is_relative(texts: list[str]) -> bool:
    return bool(texts) and not any(each.startswith(UNKNOWN) or is_outside(each) for each in texts)


def _of(texts: list[str]) -> str:
    return f" of {shown(texts[0])}" if texts and texts[0].strip(UNKNOWN) else ""


_CallRule = Callable[[CallSite, str], None]


def _table() -> dict[str, _CallRule]:
    table: dict[str, _CallRule] = {}
    for listed, judge in (
        (flow_names.DECODERS, _judge_decoder),
        (rule_names.SHELL_BY_KEYWORD, _judge_program),
        (rule_names.SHELLS, _judge_shell),
        (rule_names.CODE, _judge_code),
        (rule_names.IMPORTS, _judge_import),
        (rule_names.UNPICKLERS - flow_names.DECODERS, _judge_unpickling),
        (rule_names.YAML_LOADS, _judge_unpickling),
        (rule_names.WRITES, _judge_write),
        (rule_names.DELETIONS, _judge_deletion),
        (rule_names.OPENERS, _judge_open),
        (rule_names.EXTRACTORS, _judge_extraction),
        (flow_names.PATH_JOINS, _judge_join),
        (rule_names.ENVIRONMENT_USES, _judge_environment_copy),
        (flow_names.NAMESPACES, _judge_namespace),
    ):
        table |= dict.fromkeys(listed, judge)
    return table


CALL_RULES: Final = _table() | {
    "builtins.getattr": _judge_getattr,
    "operator.attrgetter": _judge_getattr,
    "numpy.load": _judge_numpy,
    "torch.load": _judge_torch,
    "os.getenv": _judge_variable,
    "os.environ.get": _judge_variable,
    "os.environ.pop": _judge_variable,
    "pty.spawn": _judge_program,
    "jinja2.Template": _judge_template,
    "jinja2.Environment().from_string": _judge_template,
    "mako.template.Template": _judge_template,
}
