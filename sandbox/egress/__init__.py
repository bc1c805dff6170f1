"""Egress: all the network that a call under a policy of mode `public` has.

The call's own network namespace keeps having nothing but a loopback: no route, no name server, no datagram leaves it.
Before the tool's process exists, the call's guard makes a listening socket on that loopback and hands it to the engine
(see `porter`). A socket belongs to the namespace it was made in, whoever holds it: so the engine answers the call's
connections itself, as an HTTP proxy, and nothing of ours that could be attacked runs in the box.

    tool ── 127.0.0.1:3128 │ engine: connection ── destinations ── a public address
            the call's     │         heads           names, addresses, the policy's hosts
            namespace      │         ledger          the host's own proxy, where it has one

What is asked for is a name and a port. The engine looks the name up, refuses every address that is not a public one
(see `addresses`), and connects to the very address that it looked at, so a name that means something else a moment
later gains nothing. A redirect is the tool's to follow, and asks anew.

What is not held back: within a `CONNECT` the bytes are the tool's own affair. Whoever may reach one host of a large
provider may name another one inside of TLS, and what is sent to a host that is admitted has left. A list of hosts
bounds whom a tool speaks to, not what it says.
"""

from __future__ import annotations

from typing import Final

PORT: Final = 3128
"""Where a call finds the proxy, on its own loopback."""
NETWORK: Final = "public, through the engine's proxy"
"""What a receipt says of it."""
SHOWN_AT: Final = "/egress"
"""Where a container is shown the way to the engine."""
