"""`python -m api`: serve until SIGTERM or SIGINT, and let running requests end."""

import logging
from contextlib import suppress
from socket import socket

import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.settings import Settings

#: Seconds that running requests have to end.
GRACE = 20


class Server(uvicorn.Server):
    """Ends streams that have no end, as soon as it is told to stop."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._app.state.resources.steps.stop()
        await super().shutdown(sockets)


def main() -> None:
    settings = Settings()
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it announces each look at the schema
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE,
    )
    server = Server(app, config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(3)


if __name__ == "__main__":
    main()
