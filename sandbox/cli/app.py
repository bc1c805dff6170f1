"""Every command. A new one is one file and one line here."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from sandbox.cli.artifact_grep import grep_artifact
from sandbox.cli.artifact_list import list_artifacts
from sandbox.cli.artifact_save import save_artifact
from sandbox.cli.artifact_show import show_artifact
from sandbox.cli.check import check
from sandbox.cli.doctor import doctor
from sandbox.cli.env_build import build_environment
from sandbox.cli.env_bundle import export_environment, import_environment
from sandbox.cli.env_list import list_environments, show_environment
from sandbox.cli.env_lock import lock_environment
from sandbox.cli.env_prune import prune_environments
from sandbox.cli.env_verify import verify_environments
from sandbox.cli.image_bootstrap import bootstrap_image
from sandbox.cli.image_build import build_image
from sandbox.cli.image_list import list_all_images
from sandbox.cli.image_prune import prune_images
from sandbox.cli.image_pull import pull_image
from sandbox.cli.image_push import push_image
from sandbox.cli.policy_explain import explain
from sandbox.cli.policy_list import list_policies
from sandbox.cli.policy_show import show_policy
from sandbox.cli.run import run
from sandbox.cli.schema import schema
from sandbox.cli.terminal import show

_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    add_completion=False,
    context_settings=_SETTINGS,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is there in half the time
)
policy = typer.Typer(help="See what policies grant, and what enforces them here.", no_args_is_help=False)
image = typer.Typer(help="Make and keep the images that containers start from.", no_args_is_help=False)
env = typer.Typer(help="Lock, build and keep the environments that tools run in.", no_args_is_help=False)
artifact = typer.Typer(help="Read what calls left, and what was too long to show.", no_args_is_help=False)

app.command("run")(run)
app.command("check")(check)
app.command("schema")(schema)
app.command("doctor")(doctor)
app.add_typer(policy, name="policy")
policy.command("list")(list_policies)
policy.command("show")(show_policy)
policy.command("explain")(explain)
app.add_typer(env, name="env")
env.command("lock")(lock_environment)
env.command("build")(build_environment)
env.command("list")(list_environments)
env.command("show")(show_environment)
env.command("verify")(verify_environments)
env.command("prune")(prune_environments)
env.command("export")(export_environment)
env.command("import")(import_environment)
app.add_typer(image, name="image")
image.command("bootstrap")(bootstrap_image)
image.command("build")(build_image)
image.command("list")(list_all_images)
image.command("prune")(prune_images)
image.command("push")(push_image)
image.command("pull")(pull_image)
app.add_typer(artifact, name="artifact")
artifact.command("list")(list_artifacts)
artifact.command("show")(show_artifact)
artifact.command("grep")(grep_artifact)
artifact.command("save")(save_artifact)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        show(f"sandbox {version('sandbox-engine')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run tools, pieces of Python source, in boxes that the host's kernel walls off.

    Exit codes: 0 ok, 1 the tool failed, 2 usage, source or arguments, 3 a limit, 4 environment, 5 backend or isolation,
    130 cancelled.
    """
