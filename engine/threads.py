"""Thread settings that must be in the environment before torch is imported.

Active waiting (the default of GNU OpenMP) on a machine that does other work made a forward pass
fifty times slower; passive waiting costs nothing measurable. Call this first at the edge of a
process that will load torch: nothing below the edge touches the environment.
"""

import sys
from collections.abc import MutableMapping


def set_thread_environment(environment: MutableMapping[str, str], threads: int | None) -> None:
    """Write the settings that are not there yet. `threads` None leaves the number to the user.

    Raises RuntimeError when torch is already imported, as it would not see them.
    """
    if "torch" in sys.modules:
        raise RuntimeError("set_thread_environment must run before torch is imported")
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is not None:
        environment.setdefault("OMP_NUM_THREADS", str(threads))
