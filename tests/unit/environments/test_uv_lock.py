"""The requests to uv, and the pages that uv will certainly ask for."""

from __future__ import annotations

from sandbox.environments.indexes.settings import IndexSettings
from sandbox.environments.interpreters.host import own_interpreter
from sandbox.environments.resolution.request import Question
from sandbox.environments.resolution.uv_lock import sure_names
from sandbox.policy import load


def test_pages_are_certain_for_unconditional_requirements_by_name() -> None:
    question = Question(
        requirements=(
            "jinja2[i18n]>=3",
            "Ruamel.Yaml",
            "elsewhere @ https://index.test/elsewhere-1.0-py3-none-any.whl#sha256=00",
            "older; python_version < '3'",
        ),
        interpreter=own_interpreter(),
        supply=load("default").supply,
        settings=IndexSettings(),
        most_packages=10,
        most_disk=1,
    )
    assert sure_names(question) == ["jinja2", "ruamel-yaml"]
