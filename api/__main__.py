"""`python -m api`: serve until SIGTERM or SIGINT, and let running requests end."""

import logging

import uvicorn

from api.app import create_app
from api.settings import Settings

#: Seconds that running requests have to end.
GRACE = 20


def main() -> None:
    settings = Settings()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it announces each look at the schema
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE,
    )


if __name__ == "__main__":
    main()
