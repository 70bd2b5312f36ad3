"""`python -m tracekit` works like `tracekit`."""

from tracekit.cli import main

if __name__ == "__main__":
    main()
