"""``python -m ptq``."""

from ptq_cli.main import main

main()
