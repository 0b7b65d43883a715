"""The entry point of the ``msgrlab`` command, which imports nothing before Ctrl-C ends it without a traceback."""

import signal


def main() -> None:
    """Run the command line of this process and exit."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # not where the parent ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from toolkit.cli.main import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()
