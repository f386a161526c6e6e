"""``ptq lint`` for several files, for pre-commit: python -m ptq_cli.lint_files [OPTION ...] FILE ..."""

from __future__ import annotations

import subprocess
import sys


def main() -> None:
    """Lint each file in its own process; exit with the largest exit code."""
    arguments = sys.argv[1:]
    options = [a for a in arguments if a.startswith("-")]
    codes = [
        subprocess.run(
            [sys.executable, "-m", "ptq_cli", "lint", file, *options], check=False
        ).returncode
        for file in arguments
        if file not in options
    ]
    sys.exit(max(codes, default=0))


if __name__ == "__main__":
    main()
