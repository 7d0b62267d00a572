"""Loads a module of tasks once and forks a child for each request: children start at once.

``python fault_forker.py MODULE`` calls the module's ``warm``, if there is one, and reads requests
from standard input, one JSON object a line, with ``task``, ``arguments``, ``environment`` and
``log``; it answers ``ready``, and for each request the child's process id and, once it has ended,
its exit status (negative for a signal).
"""

import importlib
import json
import os
import sys
import traceback


def child(tasks, request: dict) -> None:
    """Do one task, with all that is printed going to the log; does not return."""
    code = 1
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(request["environment"])
        getattr(tasks, request["task"])(*request["arguments"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve requests until standard input ends."""
    tasks = importlib.import_module(sys.argv[1])
    getattr(tasks, "warm", lambda: None)()
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(tasks, json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing is left to be tidied, which PyTorch would take long for
