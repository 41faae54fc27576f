"""The command line, called in this process."""

from understudy.cli import app as cli


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = 0
    try:
        cli.main([str(a) for a in arguments])
    except SystemExit as done:
        code = done.code or 0
    out = capsys.readouterr()
    return code, out.out, out.err
