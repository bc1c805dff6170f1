"""Images of containers, which the engine can build without a registry.

    recipe        the contents of an image: `images/<name>/image.toml`
    apt_sources   the package sources of this machine
    bootstrapping a tree of files from those packages, by debootstrap
    stripping     the removal of files that no tool needs
    tarball       the tree as one file, and the cache of such files
    base          the base image in a daemon: bootstrap, find, list, prune
    image_python  the Python of an image

    environment_image   an environment on top of the base image: make, find, list, prune
    layer               its files in the form that a daemon takes
    fitting             whether an environment works with the base's Python
    registry            push and pull

Three digests identify a base image. The *recipe* digest describes the request and is the same on every machine. Recipe,
distribution and processor make the *inputs*, which the engine never builds twice. The *content* is the SHA-256 of the
resulting files as a tarball, and the image's tag: `sandbox/base:<12 digits>`.
"""

from __future__ import annotations

from sandbox.images.base import BaseImage, Bootstrapped, PruneReport, bootstrap, digest, find, list_images, prune
from sandbox.images.environment_image import (
    EnvironmentImage,
    environment_image,
    find_environment_image,
    list_environment_images,
    prune_environment_images,
)
from sandbox.images.image_python import ImagePython
from sandbox.images.registry import Pushed, pull, push

__all__ = [
    "BaseImage",
    "Bootstrapped",
    "EnvironmentImage",
    "ImagePython",
    "PruneReport",
    "Pushed",
    "bootstrap",
    "digest",
    "environment_image",
    "find",
    "find_environment_image",
    "list_environment_images",
    "list_images",
    "prune",
    "prune_environment_images",
    "pull",
    "push",
]
