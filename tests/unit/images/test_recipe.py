"""Recipes are read strictly, and their digests follow from what matters."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox.errors import BackendUnavailable
from sandbox.images.recipe import Recipe, load_recipe


def test_the_shipped_recipe_leaves_no_way_to_install_more() -> None:
    recipe = load_recipe("python")
    assert {"apt", "dpkg", "perl-base"} <= set(recipe.without_packages)
    assert not set(recipe.packages) & set(recipe.without_packages)


def test_an_unknown_image_is_answered_with_those_there_are() -> None:
    with pytest.raises(BackendUnavailable, match="take one of: python"):
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
def test_a_recipe_that_reaches_elsewhere_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Recipe.model_validate({"description": "x", "packages": [], **wrong})


def test_what_it_says_of_itself_makes_no_other_image() -> None:
    one = Recipe(description="one", packages=("python3",))
    assert one.digest == one.model_copy(update={"description": "another"}).digest
    assert one.digest != one.model_copy(update={"folders": ("x",)}).digest


def test_other_machines_make_other_images() -> None:
    recipe = Recipe(description="one", packages=("python3",))
    inputs = {
        recipe.inputs(distribution=distribution, architecture=architecture)
        for distribution in ("debian bookworm", "debian trixie")
        for architecture in ("amd64", "arm64")
    }
    assert len(inputs) == 4
