"""Egress: the whole network of a call under a policy of mode `public`.

The call's own network namespace has only a loopback: no route, no name server, no datagram leaves the namespace. Before
the tool's process exists, the call's guard makes a listening socket on that loopback and hands it to the engine (see
`listener_handoff`). A socket belongs to the namespace in which it was made, in any process: so the engine answers the
call's connections itself, as an HTTP proxy, and no code of ours that a tool could attack runs in the box.

    tool ── 127.0.0.1:3128 │ engine: connection ── destinations ── a public address
            the call's     │         http_head       names, addresses, the policy's hosts
            namespace      │         traffic         the host's own proxy, if it has one

A request names a host and a port. The engine looks the name up, refuses every address that is not public (see
`addresses`), and connects to the very address that it checked, so a name that resolves to another address a moment
later gains nothing. The tool follows a redirect itself, with a new request.

The proxy does not inspect the bytes within a `CONNECT`. A tool that may reach one host of a large provider may name
another one inside of TLS, and data that a tool sends to an admitted host is out. A list of hosts limits the
destinations of a tool, not its messages.
"""

from __future__ import annotations

from typing import Final

PORT: Final = 3128
"""The proxy's port on the call's loopback."""
NETWORK: Final = "public, through the engine's proxy"
"""The receipt's description of this network."""
SHOWN_AT: Final = "/egress"
"""The folder in a container with the socket that leads to the engine."""
