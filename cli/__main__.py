"""Entry point of ``ptq`` and of ``python -m ptq_cli``: signals are set up before the imports that take long."""

from . import signals


def run_command_line() -> None:
    """Run ``ptq``; Ctrl-C while it loads ends it without a traceback."""
    signals.end_at_once()
    from .main import main

    main()


if __name__ == "__main__":
    run_command_line()
