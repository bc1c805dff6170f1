"""Images: what containers start from, made here where no registry need be reached.

    recipe        what is to be in an image: `images/<name>/image.toml`
    apt_sources   where this machine's own packages come from
    bootstrapping a tree of files from those packages, by debootstrap
    stripping     what is taken out of that tree again
    tarball       the tree as one file, and the folder where such files are kept
    base          the base image in a daemon: made, found, listed, pruned
    image_python  which Python an image has

    environment_image   an environment on top of the base image: made, found, listed
    built               what a store says of it
    layer               its files as they are sent to a daemon
    fitting             whether it would work with the base's Python
    pruning             what goes
    pushing  pulling    what goes to a registry, and what comes from one

A base image is known by three digests. Its *recipe* says what was asked for and is the same on every machine; with the
distribution and the processor it makes the *inputs*, for which nothing is done twice; its *content* is what came out,
the SHA-256 of the files as a tarball, and the image is tagged with that: `sandbox/base:<12 digits>`.
"""

from __future__ import annotations

from sandbox.images.base import BaseImage, Bootstrapped, PruneReport, bootstrap, digest, find, list_images, prune
from sandbox.images.environment_image import (
    EnvironmentImage,
    environment_image,
    find_environment_image,
    list_environment_images,
)
from sandbox.images.image_python import ImagePython
from sandbox.images.pruning import prune_environment_images
from sandbox.images.pulling import pull
from sandbox.images.pushing import Pushed, push

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
