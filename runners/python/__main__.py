"""The runner: the program that runs inside a box, in somebody else's interpreter.

Started as ``python -I -S -B <this file> CHANNEL [GROUP…]``; naming the folder works too, but Python then loads first
what runs folders. CHANNEL is the number of an inherited unix socket, or ``-`` for standard input and output, or ``+``
for the same with the offer of a socket (see channel.py); each GROUP is a control group's folder that goes when the box
goes. Standard library only, for Python 3.8 and later.

    engine → runner   open                        once, first: the walls, what to preload, what is installed, the kit
                      call, CHUNK request…        one call; kill, grant (more output wanted)
                      slots, release              control groups to put calls into
                      preload, compile            modules worth importing ahead; a tool worth compiling ahead
                      lines                       pipes of the engine's own, each for one child forked ahead
    runner → engine   hello | fault               the box is up and this is what it is, or which wall failed
                      started, CHUNK walls        a child has the call; the walls as measured around it
                      CHUNK stdout|stderr|value   as they come; value: items that a generator gives, then the reply
                      CHUNK files                 what the call left in its folder, as its guard sends it
                      returned                    its reply is whole; what it printed before has been sent
                      ended                       how the call's process ended, and what it used
                      ready, surplus, gone        of the child on a line: it can be called; it need not be; it is dead
                      unfit                       packages that were imported ahead cannot be shared any more, and why

When the channel closes, everything here dies. No foreign code ever runs in a process that has the channel: packages are
imported in a template (template.py), and a tool runs in a process that holds four pipes of its own (guard.py). Neither
this folder nor its modules can be imported there.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from box import start

    sys.exit(start.main(*sys.argv[1:]))
