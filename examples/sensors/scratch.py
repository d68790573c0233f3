#!/usr/bin/env python3
"""A load sensor: free space below SCRATCH, for this host and, if it is shared, for all.

Try it with: execd sensor check examples/sensors/scratch.py

The name must be a complex (qconf -mc), for example
  scratch_free  scr  MEMORY  <=  YES  NO  0  0
"""

import os
import socket
import sys

SCRATCH = "/tmp"
SHARED = False  # True: the value is the whole cluster's, and one host is enough to report it

host = "global" if SHARED else os.environ.get("HOST", socket.gethostname())


def measure():
    """The values of one report. What cannot be measured is left out."""
    try:
        fs = os.statvfs(SCRATCH)
    except OSError as e:
        # Standard error is kept by execd, and shown beside the sensor.
        print(f"cannot ask {SCRATCH}: {e}", file=sys.stderr)
        return {}
    return {"scratch_free": f"{fs.f_bavail * fs.f_frsize // 2**20}M"}


# Each line that is read asks for a report; "quit", or the end of the input, ends it.
for request in sys.stdin:
    if request.strip() == "quit":
        break
    lines = ["begin"]
    lines += [f"{host}:{name}:{value}" for name, value in measure().items()]
    lines += ["end"]
    # Output to a pipe is held back until it is flushed: without this nothing arrives.
    print("\n".join(lines), flush=True)
