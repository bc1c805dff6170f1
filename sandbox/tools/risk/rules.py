"""Judge what the walk noted: each rule looks at one place and adds findings."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sandbox.tools.risk import flow_names, rule_names
from sandbox.tools.risk.collection import Collected, Scope
from sandbox.tools.risk.folding import UNKNOWN, is_whole
from sandbox.tools.risk.model import RiskKind, RiskLevel
from sandbox.tools.risk.texts import (
    is_destructive_command,
    is_outside,
    is_secret_name,
    is_sensitive_place,
    names_credentials,
    names_metadata_service,
    odd_letters,
)
from sandbox.tools.risk.value import NOTHING, Value
from sandbox.tools.risk.values import Evaluator

Found = tuple[RiskKind, RiskLevel, int, str]
_WRITING: Final = frozenset("wax+")
_SHOWN: Final = 60


@dataclass(slots=True)
class Judge:
    """Findings of one source, as they are added."""

    collected: Collected
    values: Evaluator
    has_odd_letters: bool
    found: list[Found] = field(default_factory=list)

    def add(self, kind: RiskKind, level: RiskLevel, line: int, reason: str) -> None:
        self.found.append((kind, level, line, reason))

    def judge(self) -> list[Found]:
        """Return the findings on all places."""
        for name, scope in self.collected.aliases:  # in the order of the text, so that long rows of names stay shallow
            self.values.value(name, scope)
        for call, scope in reversed(self.collected.calls):  # inner calls first, for the same reason
            self._call(call, scope)
        for node, scope in self.collected.handed:
            self._hand_on(self.values.value(node, scope), node.lineno)
        self._judge_texts()
        self._judge_environment()
        self._judge_letters()
        for line, attribute in self.collected.reflective:
            self.add("dynamic_code", "medium", line, f"{rule_names.REFLECTIVE[attribute]}: {attribute}")
        if self.values.was_cut:
            self.add("obfuscation", "medium", 1, "names and calls nest deeper than the analysis follows")
        self._judge_together()
        return self.found

    def _call(self, call: ast.Call, scope: Scope) -> None:
        function = self.values.value(call.func, scope)
        place = Place(call, scope, self, function)
        for name in sorted(function.names):
            rule = rule_names.RULES.get(name)
            judge = _JUDGES.get(name)
            if judge is not None:
                judge(place, name)
            elif rule is not None:
                self.add(rule.kind, rule.level, call.lineno, f"{rule.reason}: {name}")
        if isinstance(call.func, ast.Attribute) and call.func.attr in rule_names.METHODS:
            rule = rule_names.METHODS[call.func.attr]
            self.add(rule.kind, rule.level, call.lineno, f"{rule.reason}: {call.func.attr}")
        if "pieces" in function.marks and function.names & rule_names.RULES.keys():
            self.add("obfuscation", "medium", call.lineno, f"builds the name of what it calls: {min(function.names)}")
        if function.names.isdisjoint({"functools.partial", "builtins.getattr"}):
            for each in (*call.args, *(keyword.value for keyword in call.keywords)):
                if isinstance(each, ast.Name | ast.Attribute):
                    self._hand_on(self.values.value(each, scope), each.lineno)

    def _hand_on(self, value: Value, line: int) -> None:
        """Judge a callable that is handed on to be called elsewhere."""
        for name in sorted(value.names):
            rule = rule_names.RULES.get(name)
            if rule is not None and rule.kind != "network":
                self.add(rule.kind, rule.level, line, f"{rule.reason}: {name}")
            if name in rule_names.ENVIRONMENT:
                self.add("credentials", "low", line, "hands on all environment variables")

    def _judge_texts(self) -> None:
        for node in self.collected.texts:
            text = node.value if isinstance(node.value, str) else ""
            if "/" in text or "." in text or "_" in text or " " in text:
                self.judge_path(text, node.lineno)

    def judge_path(self, text: str, line: int) -> None:
        """Judge a text that may name a place of credentials."""
        if names_credentials(text):
            self.add("credentials", "medium", line, f"names a place of credentials: {_shown(text)}")
        elif names_metadata_service(text):
            self.add("credentials", "high", line, f"asks the metadata service of a cloud: {_shown(text)}")

    def _judge_environment(self) -> None:
        for node, scope in self.collected.iterated:
            if self.values.value(node, scope).names & rule_names.ENVIRONMENT:
                self.add("credentials", "medium", node.lineno, "goes through the environment variables")
        for subscript, scope in self.collected.subscripts:
            key = subscript.slice.value if isinstance(subscript.slice, ast.Constant) else None
            if (
                isinstance(key, str)
                and is_secret_name(key)
                and self.values.value(subscript.value, scope).names & rule_names.ENVIRONMENT
            ):
                self.add("credentials", "low", subscript.lineno, f"reads a secret from the environment: {_shown(key)}")

    def _judge_letters(self) -> None:
        for line, name in self.collected.spelled if self.has_odd_letters else ():
            reason = odd_letters(name)
            if reason is not None:
                self.add("obfuscation", "medium", line, f"{reason}: {_shown(name)}")

    def _judge_together(self) -> None:
        """Judge what is worse together: reading secrets and using the network."""
        if not any(kind == "network" for kind, *_ in self.found):
            return
        for _, level, line, reason in [each for each in self.found if each[0] == "credentials"]:
            is_scan = level != "low" or "all environment" in reason or "copies" in reason
            if is_scan:
                self.add("credentials", "high", line, f"the source also uses the network, and {reason}")


@dataclass(frozen=True, slots=True)
class Place:
    """A call that a rule looks at."""

    call: ast.Call
    scope: Scope
    judge: Judge
    function: Value

    def add(self, kind: RiskKind, level: RiskLevel, reason: str) -> None:
        self.judge.add(kind, level, self.call.lineno, reason)

    def argument(self, position: int, *keywords: str) -> Value:
        """Return the value of an argument, by position or by keyword."""
        given = self.call.args
        if position < len(given) and not any(isinstance(each, ast.Starred) for each in given[: position + 1]):
            return self.value(given[position])
        node = next((each.value for each in self.call.keywords if each.arg in keywords), None)
        return NOTHING if node is None else self.value(node)

    def value(self, node: ast.expr) -> Value:
        return self.judge.values.value(node, self.scope)

    def has(self, position: int, *keywords: str) -> bool:
        return position < len(self.call.args) or any(each.arg in keywords for each in self.call.keywords)

    def is_true(self, keyword: str) -> bool:
        """Return whether a keyword is given with anything else than `False` or `None`."""
        node = next((each.value for each in self.call.keywords if each.arg == keyword), None)
        return node is not None and not (isinstance(node, ast.Constant) and not node.value)

    def is_false(self, keyword: str) -> bool:
        node = next((each.value for each in self.call.keywords if each.arg == keyword), None)
        return isinstance(node, ast.Constant) and not node.value

    def whole(self) -> Value:
        """Return the object whose method is called."""
        return self.value(self.call.func.value) if isinstance(self.call.func, ast.Attribute) else NOTHING


def _judge_shell(place: Place, name: str) -> None:
    _judge_command(place, name, is_shell=True)


def _judge_program(place: Place, name: str) -> None:
    _judge_command(place, name, is_shell=place.is_true("shell"))


def _judge_command(place: Place, name: str, *, is_shell: bool) -> None:
    command = place.argument(0, "args", "cmd", "command")
    words = [each for text in command.texts for each in (text if isinstance(text, tuple) else (text,))]
    texts = [each for each in words if isinstance(each, str)]
    level: RiskLevel = "medium"
    reason = "runs a command in a shell" if is_shell else "runs a program"
    if any(is_destructive_command(each) for each in texts):
        level, reason = "high", "runs a dangerous command"
    elif "decoded" in command.marks:
        level, reason = "high", "runs a command that is decoded first"
        place.add("obfuscation", "high", f"decodes a command before running it: {name}")
    elif "remote" in command.marks:
        level, reason = "high", "runs a command that comes over the network"
    elif is_shell and not (texts and all(map(is_whole, texts))):
        level, reason = "high", "runs a computed command in a shell"
    place.add("process", level, f"{reason}: {name}")


def _judge_code(place: Place, name: str) -> None:
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


def _judge_import(place: Place, name: str) -> None:
    target = place.argument(0, "name")
    if not target.whole_texts():
        level: RiskLevel = "high" if {"decoded", "remote"} & target.marks else "medium"
        place.add("dynamic_code", level, f"imports a module whose name is computed: {name}")
    elif "pieces" in target.marks:
        place.add("obfuscation", "medium", f"builds the name of a module: {_shown(target.whole_texts()[0])}")


def _judge_getattr(place: Place, _: str) -> None:
    subject, member = place.argument(0), place.argument(1)
    texts = member.whole_texts()
    is_module = bool(subject.names & rule_names.SENSITIVE_MODULES)
    if is_module and not texts:
        level: RiskLevel = "high" if {"decoded", "remote"} & member.marks else "medium"
        place.add("dynamic_code", level, f"takes a computed name from a module: {min(subject.names)}")
    if is_module and texts and "pieces" in member.marks:
        place.add("obfuscation", "medium", f"builds the name of an attribute: {_shown(texts[0])}")
    for each in texts:
        if each in rule_names.REFLECTIVE:
            place.add("dynamic_code", "medium", f"{rule_names.REFLECTIVE[each]}: {each}")


def _judge_unpickling(place: Place, name: str) -> None:
    data = place.argument(0)
    if name.startswith("yaml.") and not _is_unsafe_yaml(place, name):
        return
    level: RiskLevel = "high" if {"remote", "decoded", "argument"} & data.marks else "medium"
    place.add("deserialization", level, f"rebuilds objects from data that can run code: {name}")


def _is_unsafe_yaml(place: Place, name: str) -> bool:
    if name not in rule_names.YAML_LOADS or not place.has(1, "Loader"):
        return True
    return not place.argument(1, "Loader").names & rule_names.SAFE_LOADERS


def _judge_numpy(place: Place, name: str) -> None:
    if place.is_true("allow_pickle"):
        place.add("deserialization", "medium", f"rebuilds objects from data that can run code: {name}")


def _judge_torch(place: Place, name: str) -> None:
    if not place.is_true("weights_only"):
        place.add("deserialization", "medium", f"rebuilds objects from data that can run code: {name}")


def _judge_deletion(place: Place, name: str) -> None:
    is_tree = name == "shutil.rmtree"
    target = place.whole() if name.startswith("pathlib.Path()") else place.argument(0, "path")
    texts = [each for each in target.texts if isinstance(each, str)]
    level: RiskLevel = "medium" if is_tree and not _is_relative(texts) else "low"
    if "listed" in target.marks:
        level = "medium"
    if any(is_outside(each) for each in texts):
        level = "high" if is_tree or any(map(is_sensitive_place, texts)) else "medium"
    place.add("files", level, f"deletes files: {name}{_of(texts)}")


def _judge_write(place: Place, name: str) -> None:
    rule = rule_names.RULES.get(name)  # a download is a use of the network as well
    if rule is not None:
        place.add(rule.kind, rule.level, f"{rule.reason}: {name}")
    own = place.whole() if name.startswith("pathlib.Path()") else place.argument(0, "path", "src", "url")
    for target in (own, place.argument(1, "dst", "filename")):
        _judge_written(place, name, target)


def _judge_open(place: Place, name: str) -> None:
    is_method = name.startswith("pathlib.Path()")
    target = place.whole() if is_method else place.argument(0, "file", "name", "filename")
    for each in target.texts:
        if isinstance(each, str):
            place.judge.judge_path(each, place.call.lineno)
    mode = place.argument(0 if is_method else 1, "mode", "flags")
    modes = [each for each in mode.texts if isinstance(each, str)]
    if any(_WRITING.intersection(each[:4]) for each in modes) or name == "os.open":
        _judge_written(place, name, target)


def _judge_written(place: Place, name: str, target: Value) -> None:
    texts = [each for each in target.texts if isinstance(each, str) and is_outside(each)]
    if texts:
        level: RiskLevel = "high" if any(map(is_sensitive_place, texts)) else "medium"
        place.add("files", level, f"writes outside the working folder: {name}{_of(texts)}")


def _judge_extraction(place: Place, name: str) -> None:
    position = 0 if name.endswith(".extractall") else 1
    _judge_written(place, name, place.argument(position, "path", "extract_dir"))
    if {"remote"} & place.whole().marks:
        place.add("files", "medium", f"unpacks an archive that comes over the network: {name}")


def _judge_join(place: Place, _: str) -> None:
    for each in place.value(place.call).texts:
        if isinstance(each, str):
            place.judge.judge_path(each, place.call.lineno)


def _judge_variable(place: Place, name: str) -> None:
    for each in place.argument(0, "key").whole_texts():
        if is_secret_name(each):
            place.add("credentials", "low", f"reads a secret from the environment: {_shown(each)}")


def _judge_decoder(place: Place, name: str) -> None:
    if "encoded" in place.argument(0).marks:
        place.add("obfuscation", "medium", f"decodes a long literal of the source: {name}")
    if name in rule_names.UNPICKLERS:
        _judge_unpickling(place, name)


def _judge_environment_copy(place: Place, name: str) -> None:
    if place.argument(0).names & rule_names.ENVIRONMENT:
        level: RiskLevel = "medium" if name in ("json.dumps", "builtins.str", "builtins.repr") else "low"
        place.add("credentials", level, "hands on all environment variables")


def _judge_namespace(place: Place, name: str) -> None:
    if place.argument(0).names & rule_names.SENSITIVE_MODULES:
        place.add("dynamic_code", "low", f"reaches into the names of a module: {name}")


def _is_relative(texts: list[str]) -> bool:
    return bool(texts) and not any(each.startswith(UNKNOWN) or is_outside(each) for each in texts)


def _of(texts: list[str]) -> str:
    return f" of {_shown(texts[0])}" if texts and texts[0].strip(UNKNOWN) else ""


def _shown(text: str) -> str:
    return text.replace(UNKNOWN, "…")[:_SHOWN]


_Judge = Callable[[Place, str], None]


def _table() -> dict[str, _Judge]:
    table: dict[str, _Judge] = {}
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


_JUDGES: Final = _table() | {
    "builtins.getattr": _judge_getattr,
    "operator.attrgetter": _judge_getattr,
    "numpy.load": _judge_numpy,
    "torch.load": _judge_torch,
    "os.getenv": _judge_variable,
    "os.environ.get": _judge_variable,
    "os.environ.pop": _judge_variable,
    "pty.spawn": _judge_program,
}
