"""Fuzzes the readers of files: mutations that know the structure of a file, limits of memory and
time, and a record of what went wrong.

    PYTHONPATH=tests python -m fuzzing COUNT SEED [FORMAT...]    prints JSON

`make fuzz` runs it for minutes, `tests/io/test_hostile.py` for seconds.
"""
