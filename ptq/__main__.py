"""Entry point of ``python -m ptq``: the command line of the package ``ptq_cli``."""

from ptq_cli.__main__ import start

if __name__ == "__main__":
    start()
