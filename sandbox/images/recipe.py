"""The recipe of an image, from `images/<name>/image.toml`, and the digests that follow from it."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sandbox.errors import BackendUnavailable
from sandbox.resources import find_folder

# Increase this number when a change of this package makes another image from the same recipe.
RECIPE_FORMAT: Final = 1


def _relative(path: str) -> str:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise ValueError("is no path inside an image")
    return path


PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
RelativeGlob = Annotated[str, AfterValidator(_relative)]
ProgramGlob = Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]


class Recipe(BaseModel):
    """A recipe. Paths are relative to the image's root; removed paths may contain shell wildcards."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: Annotated[str, StringConstraints(min_length=1)]
    packages: tuple[PackageName, ...]
    without_packages: tuple[PackageName, ...] = ()
    without_programs: tuple[ProgramGlob, ...] = ()
    without_paths: tuple[RelativeGlob, ...] = ()
    kept_paths: tuple[RelativeGlob, ...] = ()
    folders: tuple[RelativeGlob, ...] = ()
    links: dict[RelativeGlob, str] = {}
    proof: Annotated[str, Field(description="a line of Python that runs if all is there")] = "pass"

    @property
    def digest(self) -> str:
        """Return the digest of all fields that affect the image; the same on every machine."""
        return _digest(str(RECIPE_FORMAT), self.model_dump_json(exclude={"description"}))

    def inputs(self, *, distribution: str, architecture: str) -> str:
        """Return the digest of everything that affects the image, except for the day of its build."""
        return _digest(self.digest, distribution, architecture)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load_recipe(name: str) -> Recipe:
    """Return the recipe of that name; raise `BackendUnavailable` if the name is unknown."""
    images = find_folder("images")
    names = sorted(path.parent.name for path in images.glob("*/image.toml"))
    if name not in names:
        raise BackendUnavailable(f"there is no image {name[:80]!r}", remedy=f"use one of: {', '.join(names)}")
    text = (images / name / "image.toml").read_text(encoding="utf-8")
    try:
        return Recipe.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise BackendUnavailable(f"{images / name / 'image.toml'} is not a recipe: {str(error)[:500]}") from None
