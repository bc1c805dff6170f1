"""What a backend can do on this host: which walls, which policies, which limits. `Sandbox.doctor` is this.

Three questions: which walls were up around a call that demanded none; which of the shipped policies would run here, and
what the others lack; and whether each limit bites when a call goes far beyond it. All of them are answered by real
calls (`probe`), in boxes of the backend that is asked about, and nothing that those leave is kept.
"""

from sandbox.doctor.checking import check_up
from sandbox.doctor.report import Checkup

__all__ = ["Checkup", "check_up"]
