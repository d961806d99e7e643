"""`python -m workers.health`: exits 0 while a worker of this host says that it is alive.

For container health checks. A worker says so from its start to its end, also while it reads, but
not before its model is loaded. Needs no model and no torch.
"""

import socket
import sys

from decisions import fleet
from decisions.database import sync_engine, transaction
from workers.settings import SweeperSettings


def alive_here(database_url: str, host: str) -> bool:
    database = sync_engine(database_url)
    try:
        with transaction(database) as connection:
            names = [row.name for row in connection.execute(fleet.live())]
    finally:
        database.dispose()
    return any(name.rpartition(":")[0] == host for name in names)


if __name__ == "__main__":
    sys.exit(not alive_here(SweeperSettings().database_url, socket.gethostname()))
