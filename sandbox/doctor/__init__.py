"""Examine a backend on this host: its layers of isolation, policies and limits. `Sandbox.doctor` calls `examine`.

`doctor` answers three questions: which layers isolated a call that required none; which of the shipped policies can run
here, and what the others lack; and whether each limit bites when a call goes far beyond it. Real calls give the
answers, in boxes of the backend, and leave nothing behind.
"""

from sandbox.doctor.report import Checkup, examine

__all__ = ["Checkup", "examine"]
