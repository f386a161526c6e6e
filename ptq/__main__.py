"""Entry point of ``python -m ptq``: the command line of the package ``ptq_cli``."""

from ptq_cli.__main__ import run_command_line

if __name__ == "__main__":
    run_command_line()
