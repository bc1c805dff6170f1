"""Risk analysis: what it finds in hostile sources and in benign functions, and what holds for every source."""

from __future__ import annotations

import ast
import importlib.util
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.tools.check import check_source
from sandbox.tools.risk import RiskKind, RiskReport, analyze_risk, is_within
from sandbox.tools.risk.collection import Collector
from sandbox.tools.risk.model import LEVELS, MAX_FINDINGS, NOTE
from sandbox.tools.risk.rules import Judge
from sandbox.tools.risk.values import Evaluator
from tests.checkout import ROOT

CORPUS: Final = ROOT / "tests" / "corpus" / "risk"
HOSTILE: Final = tomllib.loads((CORPUS / "hostile.toml").read_text())["case"]
HELD_OUT: Final = tomllib.loads((CORPUS / "held_out.toml").read_text())["case"]
BENIGN: Final = tomllib.loads((CORPUS / "benign.toml").read_text())
MIN_RECALL: Final = 0.95
MIN_BENIGN: Final = 190
MAX_ALARMS: Final = 0.05


@cache
def _analyzed(source: str) -> RiskReport:
    return analyze_risk(source, ast.parse(source))


def _kinds(source: str) -> set[str]:
    return {each.kind for each in _analyzed(source).findings}


def _benign_sources() -> Iterator[tuple[str, str]]:
    """Yield the functions of the list, each with the imports of its module; other Pythons may lack some."""
    for modules in BENIGN.values():
        for module, names in modules.items():
            found = importlib.util.find_spec(module)
            if found is None or found.origin is None:
                continue
            text = Path(found.origin).read_text()
            body = ast.parse(text).body
            imports = [ast.unparse(each) for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
            for name in names:
                function = _function(body, name)
                if function is not None:
                    yield f"{module}.{name}", "\n".join([*imports, textwrap.dedent(ast.unparse(function))])


def _function(body: list[ast.stmt], name: str) -> ast.stmt | None:
    first, _, rest = name.partition(".")
    found = next((each for each in body if getattr(each, "name", None) == first), None)
    return _function(getattr(found, "body", []), rest) if rest else found


def test_the_corpus_has_enough_sources_of_each_kind() -> None:
    assert len(HOSTILE) >= 60
    assert len({each["name"] for each in (*HOSTILE, *HELD_OUT)}) == len(HOSTILE) + len(HELD_OUT)
    assert {kind for each in HOSTILE for kind in each["kinds"]} == set(get_args(RiskKind))


@pytest.mark.parametrize("kind", get_args(RiskKind))
def test_hostile_sources_show_each_kind_of_risk(kind: str) -> None:
    rows = [each for each in (*HOSTILE, *HELD_OUT) if kind in each["kinds"]]
    missed = [each["name"] for each in rows if kind not in _kinds(each["source"])]
    assert len(missed) <= (1 - MIN_RECALL) * len(rows), missed


@pytest.mark.parametrize("row", HOSTILE, ids=lambda row: row["name"])
def test_a_hostile_source_is_above_low(row: dict[str, Any]) -> None:
    assert not is_within(_analyzed(row["source"]), "low")


@pytest.mark.slow
def test_few_benign_functions_are_above_low() -> None:
    sources = dict(_benign_sources())
    alarms = [name for name, source in sources.items() if not is_within(_analyzed(source), "low")]
    assert len(sources) >= MIN_BENIGN
    assert len(alarms) <= MAX_ALARMS * len(sources), alarms


CASES: Final = {
    "import os\ndef f(a): return os.path.join(a, 'x')": "none",
    "import json\ndef f(a): return json.loads(a)": "none",
    "import yaml\nyaml.safe_load(x)\nyaml.load(x, Loader=yaml.SafeLoader)": "none",
    "import yaml\nyaml.load(x)": "medium",
    "import numpy\nnumpy.load('a.npy')": "none",
    "import numpy\nnumpy.load('a.npy', allow_pickle=True)": "medium",
    "import ast\ndef f(a): return ast.literal_eval(a)": "none",
    "def f(a, os): os.system(a)": "none",
    "open('notes.txt', 'w')\nopen('/tmp/x', 'w')\nopen('/work/outputs/x', 'w')": "none",
    "open('/etc/hosts')": "none",
    "open('/opt/x', 'w')": "medium",
    "open('../x', 'w')": "medium",
    "open('/etc/hosts', 'w')": "high",
    "import requests\nrequests.get('https://example.com')": "low",
    "import os\nos.environ['API_KEY']": "low",
    "import os\nos.remove('x')": "low",
    "import os\nos.system('ls')": "medium",
    "import os\ndef f(a): os.system(a)": "high",
    "import os\nos.system('rm -rf /')": "high",
    "'''Reads ~/.ssh/id_rsa, as its documentation says.'''": "none",
    "import importlib\nimportlib.import_module('json')": "none",
    "größe = 1": "none",
    "größe = a . b": "none",
    "a.𝓼𝔂𝓼𝓽𝓮𝓶": "medium",
    "def f(self, name): return getattr(self, name)": "none",
    "isinstance(x, types.FunctionType)": "none",
    "import base64\nbase64.b64decode(x)": "none",
}


@pytest.mark.parametrize(("source", "level"), CASES.items())
def test_a_source_has_this_level(source: str, level: str) -> None:
    assert _analyzed(source).level == level


def test_a_finding_has_its_line_and_reason() -> None:
    (found,) = _analyzed("import os\n\n\nos.kill(1, 9)\n").findings
    assert (found.kind, found.level, found.line) == ("process", "medium", 4)
    assert found.reason == "controls other processes: os.kill"


def test_a_check_reports_risk_even_if_nothing_can_be_called() -> None:
    report = check_source("import os\nos.system('ls')\n")
    assert report.risk is not None
    assert (report.risk.level, report.risk.note) == ("medium", NOTE)
    assert "not a security boundary" in NOTE


def test_risk_never_makes_a_check_fail() -> None:
    documented = '    """Run it.\n\n    Args:\n        code: The code.\n    """\n'
    source = f"def run(code: str) -> str:\n{documented}    return eval(code)\n"
    report = check_source(source)
    assert report.ok
    assert report.risk is not None
    assert report.risk.level == "high"


def test_a_source_that_does_not_parse_has_no_risk_report() -> None:
    assert check_source("def f(:").risk is None


def test_a_maximum_level_is_compared_by_rank() -> None:
    report = _analyzed("import os\nos.system('ls')")
    assert [is_within(report, level) for level in LEVELS] == [False, False, True, True]


# Properties of every report

DANGEROUS: Final = st.sampled_from(
    ["os.system", "os.popen", "subprocess.run", "eval", "pickle.loads", "shutil.rmtree", "os.remove", "requests.get"]
)
ARGUMENTS: Final = st.sampled_from(["'ls'", "x", "'/etc/passwd'", "x + 'y'", "b'x'", ""])
IMPORTS: Final = "import os, subprocess, pickle, shutil, requests, builtins\n"


def _by_assignment(name: str, call: str) -> str:
    return f"{IMPORTS}f = {name}\ng = f\ng({call})"


def _by_getattr(name: str, call: str) -> str:
    module, _, member = name.rpartition(".")
    return f"{IMPORTS}getattr({module or 'builtins'}, {member!r})({call})"


def _by_renamed_import(name: str, call: str) -> str:
    module, _, member = name.rpartition(".")
    return f"from {module or 'builtins'} import {member} as f\nf({call})"


def _by_module_alias(name: str, call: str) -> str:
    module, _, member = name.rpartition(".")
    return f"import {module or 'builtins'} as m\nm.{member}({call})"


def _by_partial(name: str, call: str) -> str:
    return f"{IMPORTS}import functools\nfunctools.partial({name})({call})"


def _by_late_binding(name: str, call: str) -> str:
    return f"{IMPORTS}def main(): f({call})\nf = {name}"


ALIASES: Final = (
    _by_assignment,
    _by_getattr,
    _by_renamed_import,
    _by_module_alias,
    _by_partial,
    _by_late_binding,
)


@given(DANGEROUS, ARGUMENTS, st.sampled_from(ALIASES))
def test_an_alias_does_not_change_the_level(name: str, call: str, alias: Any) -> None:
    plain = _analyzed(f"{IMPORTS}{name}({call})")
    assert _analyzed(alias(name, call)).level == plain.level
    assert plain.level != "none"


EXPRESSIONS: Final = st.recursive(
    st.sampled_from(["x", "y", "os", "os.system", "eval", "'a'", "b'a'", "(3)", "[]", "os.environ", "f", "self.x"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda each: f"{each[0]}({each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]} + {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]} % {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"{each[0]}[{each[1]}]"),
        st.tuples(inner, inner).map(lambda each: f"getattr({each[0]}, {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"''.join([{each[0]}, {each[1]}])"),
        inner.map(lambda each: f"(lambda: {each})()"),
        inner.map(lambda each: f"[chr(c) for c in {each}]"),
        inner.map(lambda each: f"{each}[::-1]"),
        inner.map(lambda each: f"{each}.decode"),
    ),
    max_leaves=12,
)
STATEMENTS: Final = st.lists(
    st.tuples(st.sampled_from(["x", "y", "f", "self.x"]), st.sampled_from(["=", "+="]), EXPRESSIONS).map(" ".join),
    max_size=8,
)


@given(STATEMENTS)
def test_a_report_is_bounded_and_its_level_is_the_highest(statements: list[str]) -> None:
    source = "import os\n" + "\n".join(statements)
    report = analyze_risk(source, ast.parse(source))
    ranks = [LEVELS.index(each.level) for each in report.findings]
    assert len(ranks) <= MAX_FINDINGS
    assert LEVELS.index(report.level) == max(ranks, default=0)
    assert all(1 <= each.line <= len(statements) + 1 for each in report.findings)


def test_findings_beyond_the_bound_are_counted_and_the_worst_stay() -> None:
    report = _analyzed("import os\n" + "os.remove('x')\n" * 3000 + "os.system('rm -rf /')\n")
    assert (len(report.findings), report.unlisted) == (MAX_FINDINGS, 3001 - MAX_FINDINGS)
    assert (report.level, report.findings[-1].line) == ("high", 3002)


def _chain(step: str, *, first: str, last: str, times: int = 2000) -> str:
    return "\n".join([first, *(step.format(new=number, old=number - 1) for number in range(1, times)), last])


COSTLY: Final = {
    "names_in_a_row": _chain("x{new} = x{old}", first="import os\nx0 = os.system", last="x1999('ls')"),
    "containers_that_double": _chain(
        "x{new} = [x{old}, x{old}]", first="import os\nx0 = [os.system]", last="x1999[0](1)"
    ),
    "text_that_doubles": _chain("x{new} = x{old} + x{old}", first="import os\nx0 = 'a'", last="os.system(x1999)"),
    "functions_that_double": _chain("def f{new}(): return f{old}() + f{old}()", first="def f0(): return eval", last=""),
    "a_name_bound_often": "import os\n" + "x = os.system\nx += x\nx(x)\n" * 1000,
    "a_sum_of_many": "eval(" + " + ".join(["'a'"] * 900) + ")",
    "calls_in_a_row": "'a'" + ".lower()" * 400,
}


@pytest.mark.parametrize("source", COSTLY.values(), ids=COSTLY)
def test_each_expression_is_evaluated_at_most_once(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ast.parse(source)
    collected = Collector(()).collect(module)
    evaluator = Evaluator(collected)
    steps = Counter[int]()
    value = Evaluator.value

    def counted(self: Evaluator, node: ast.AST | None, scope: Any) -> Any:
        steps[id(node)] += 1
        return value(self, node, scope)

    monkeypatch.setattr(Evaluator, "value", counted)
    Judge(collected, evaluator, source).judge()
    assert sum(steps.values()) <= 10 * sum(1 for _ in ast.walk(module))


def test_names_that_are_passed_on_too_often_are_a_finding() -> None:
    rows = "\n".join(f"x{number} = x{number - 1}" for number in range(200, 0, -1))
    report = _analyzed(f"import os\n{rows}\nx0 = os.system\nx200('ls')")
    assert [each.kind for each in report.findings] == ["obfuscation"]
