"""`python -m fitonce` is `fitonce`."""

from fitonce.core import interrupts, streams


def main() -> None:
    """The command line; a Ctrl-C while it is imported is one sentence."""
    interrupts.listen()
    streams.outlive_readers()
    from fitonce.cli import app

    try:
        app(prog_name="fitonce")
    finally:
        interrupts.end()


if __name__ == "__main__":
    main()
