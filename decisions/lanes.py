"""What both ends of the broker must agree on: names and transport settings, as plain values.

A bell is a message without content that says "lane L has items". Losing or doubling one is harmless.
"""

from typing import Any

from decisions.types import Lane

DRAIN_TASK = "weighbridge.drain"

#: Lanes from most to least urgent.
BY_URGENCY = (Lane.INTERACTIVE, Lane.BULK, Lane.NIGHTLY)

#: Seconds. Bells are acknowledged when they are taken, so this is only a bound on leftovers.
VISIBILITY_TIMEOUT = 120


def bell_queue(lane: Lane) -> str:
    return f"bell-{lane}"


def transport_options() -> dict[str, Any]:
    """Options of kombu's Redis transport; both ends need the same ones."""
    return {
        "visibility_timeout": VISIBILITY_TIMEOUT,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "queue_order_strategy": "sorted",
        "socket_timeout": 30,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "global_keyprefix": "weighbridge:",
    }
