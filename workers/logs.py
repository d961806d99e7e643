"""Log lines of a worker: time, level, logger, sentence. No text of a state is ever logged."""

import logging


def log_to_stderr(level: int = logging.INFO) -> None:
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
