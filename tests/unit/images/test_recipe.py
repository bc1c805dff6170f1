"""Recipes are read strictly, and digests change with the relevant fields only."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox.errors import BackendUnavailable
from sandbox.images.recipe import Recipe, load_recipe


def test_the_shipped_recipe_removes_all_installers() -> None:
    recipe = load_recipe("python")
    assert {"apt", "dpkg", "perl-base"} <= set(recipe.without_packages)
    assert not set(recipe.packages) & set(recipe.without_packages)


def test_an_unknown_image_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BackendUnavailable, match="use one of: python"):
        load_recipe("../../etc")


@pytest.mark.parametrize(
    "wrong",
    [
        {"packages": ["--option"]},
        {"packages": ["a,b"]},
        {"without_paths": ["/etc"]},
        {"without_paths": ["usr/../../etc"]},
        {"without_programs": ["../sh"]},
        {"unknown": 1},
        {"description": ""},
    ],
)
def test_a_recipe_with_a_path_outside_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Recipe.model_validate({"description": "x", "packages": [], **wrong})


def test_a_description_does_not_change_the_digest() -> None:
    one = Recipe(description="one", packages=("python3",))
    assert one.digest == one.model_copy(update={"description": "another"}).digest
    assert one.digest != one.model_copy(update={"folders": ("x",)}).digest


def test_another_machine_changes_the_digest() -> None:
    recipe = Recipe(description="one", packages=("python3",))
    inputs = {
        recipe.inputs(distribution=distribution, architecture=architecture)
        for distribution in ("debian bookworm", "debian trixie")
        for architecture in ("amd64", "arm64")
    }
    assert len(inputs) == 4
