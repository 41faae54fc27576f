"""Lets threads of OpenMP and OpenBLAS sleep while they wait, instead of spinning.

`understudy/__init__.py` imports this first: the libraries read these variables when they load, and
NumPy is imported next. A thread that spins occupies a core that another program, or the thread it
waits for, could use. What the user has set is kept.
"""

import os

PASSIVE_WAITING = {
    "OMP_WAIT_POLICY": "PASSIVE",  # torch
    "OPENBLAS_THREAD_TIMEOUT": "4",  # NumPy and SciPy: 2^4 processor cycles, the least
}
for _name, _value in PASSIVE_WAITING.items():
    os.environ.setdefault(_name, _value)
