"""The option `--threads`."""

from typing import Annotated

import pytest
import typer
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

from understudy.cli.added_options import with_threads
from understudy.cli.app import LONG, app
from understudy.system import threads


def command(text: Annotated[str, typer.Argument()], times: int = 1) -> None:
    """Repeat a text."""
    blas = {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}
    print(text * times, threads.count(), blas)


def run(*words):
    small = typer.Typer()
    small.command()(with_threads(command))
    return CliRunner().invoke(small, words)


def test_the_option_sets_the_number_for_the_command_alone():
    before = threads.count()
    done = run("ab", "--times", "2", "--threads", "5")
    assert done.output.strip() == "abab 5 {1}"
    assert threads.count() == before


def test_without_it_the_default_holds():
    assert run("ab").output.strip() == f"ab {threads.count()} {{1}}"


@pytest.mark.parametrize("given", ["0", "many"])
def test_wrong_numbers_are_refused(given):
    assert run("ab", "--threads", given).exit_code == 2


@pytest.mark.parametrize("long", [command.__name__.replace("_", "-") for command in LONG])
def test_every_command_that_works_long_has_it(long):
    assert "--threads" in CliRunner().invoke(app, [long, "--help"]).output
