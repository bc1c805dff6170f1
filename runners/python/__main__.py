"""The runner: the program that runs inside a box, in a foreign interpreter.

Usage: ``python -I -S -B <this file> CHANNEL [GROUP…]``. The folder works in place of the file, but Python then first
loads its support for running folders. CHANNEL is the number of an inherited unix socket, or ``-`` for standard input
and output, or ``+`` for the same with the offer of a socket (see box/channel.py). Each GROUP is the folder of a control
group to remove after the end of the box. Standard library only, for Python 3.8 and later.

    engine → runner   open                        once, first: isolation, modules to preload, environment, authoring kit
                      call, CHUNK request…        one call; kill, grant (allow more output), hold (pause the value)
                      slots, release              control groups to put calls into
                      preload, compile            modules to import ahead; a tool to compile ahead
                      lines                       sets of direct pipes, each for one child that is forked ahead
    runner → engine   hello | fault               the box is ready, with its facts; or which layer of isolation failed
                      started, CHUNK walls        a child has the call; its isolation as measured
                      CHUNK stdout|stderr|value   output as it comes; value: items of a generator, then the reply
                      CHUNK files                 the files that the call left, as its guard sends them
                      returned                    the reply is whole; output printed before it has been sent
                      ended                       how the call's process ended, and its usage
                      ready, surplus, gone        a child on direct pipes can be called; is not needed; is dead
                      unfit                       why packages that were imported ahead cannot be shared any more

When the channel closes, all processes here die. No foreign code ever runs in a process that has the channel: a template
imports packages (zygote/template.py), and a tool runs in a process with four pipes (call/guard.py). Neither process can
import this folder or its modules.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from box import start

    sys.exit(start.main(*sys.argv[1:]))
