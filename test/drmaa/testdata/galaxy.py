"""Does what Galaxy's DRMAA runner does. Argument: the number of jobs.

Worker threads submit jobs. A thread requests the states of all jobs again and again, and never calls
wait. A job is over when its state is DONE or FAILED, and also if the library does not know it: so no
call may raise an exception while a job waits or runs, even if the daemon is not there.
"""

import os
import queue
import sys
import threading
import time

import drmaa

KINDS = {"good": "true", "failing": "(exit 3)", "killed": "kill -9 $$", "deleted": "exec sleep 1000"}
WANT = {
    "good": (drmaa.JobState.DONE, "0"),
    "failing": (drmaa.JobState.DONE, "3"),
    "killed": (drmaa.JobState.FAILED, ""),
    "deleted": (drmaa.JobState.FAILED, ""),
}

number = int(sys.argv[1])
directory = os.getcwd()
session = drmaa.Session()
session.initialize()
to_submit: queue.Queue = queue.Queue()
submitted: queue.Queue = queue.Queue()
failures = []


def work():
    while True:
        name, kind = to_submit.get()
        path = f"{directory}/{name}.sh"
        with open(path, "w") as script:
            print(f"#!/bin/sh\nuntil test -e go; do sleep 0.1; done\n{KINDS[kind]}\necho $? >{name}.ec\necho {name}", file=script)
        os.chmod(path, 0o755)
        template = session.createJobTemplate()
        template.remoteCommand = path
        template.jobName = name
        template.workingDirectory = directory
        template.outputPath = f":{directory}/{name}.o"
        template.errorPath = f":{directory}/{name}.e"
        template.nativeSpecification = "-V -q all.q"
        try:
            submitted.put((session.runJob(template), name, kind))
        except Exception as e:
            failures.append(f"{name}: {e!r}")
            submitted.put(None)
        session.deleteJobTemplate(template)


for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
for i in range(number):
    kind = list(KINDS)[i % len(KINDS)]
    to_submit.put((f"g{i}_{kind}", kind))
watched = [job for _ in range(number) if (job := submitted.get())]
deleted = set()  # by id: the second time a job may have ended
rounds = 0
while watched:
    left = []
    for id, name, kind in watched:
        try:
            state = session.jobStatus(id)
        except Exception as e:
            failures.append(f"{name}: {e!r}")
            continue
        if state not in (drmaa.JobState.DONE, drmaa.JobState.FAILED):
            left.append((id, name, kind))
            if kind == "deleted" and id not in deleted and os.path.exists("go"):
                deleted.add(id)
                session.control(id, drmaa.JobControlAction.TERMINATE)
            continue
        code = ""
        if kind in ("good", "failing"):
            with open(f"{name}.ec") as f:
                code = f.read().strip()
            with open(f"{name}.o") as f:
                if f.read() != f"{name}\n":
                    failures.append(f"{name}: the output")
        if (state, code) != WANT[kind]:
            failures.append(f"{name}: {state}, {code}")
    watched = left
    if (rounds := rounds + 1) == 1:
        print("watches", flush=True)
    time.sleep(0.05)
session.exit()
print(failures or "good", flush=True)
