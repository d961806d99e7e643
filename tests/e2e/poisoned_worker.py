"""A worker that dies, as by the kernel's out-of-memory killer, when it reads a state with the word POISON."""

import os
import signal
import sys
from typing import Any


def main() -> int:
    from workers import __main__ as worker
    from workers import contents

    load = contents.load

    def load_and_die(connection: Any, claims: Any) -> Any:
        loaded = load(connection, claims)
        if any("POISON" in str(state) for state in loaded.states.values()):
            os.kill(os.getpid(), signal.SIGKILL)
        return loaded

    contents.load = load_and_die
    return worker.main()


if __name__ == "__main__":
    sys.exit(main())
