"""Entry point of ``python -m ptq_cli``."""

from .main import main

main()
