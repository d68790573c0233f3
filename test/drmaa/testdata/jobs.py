"""Runs jobs with python3-drmaa: one that succeeds, one that fails, one that it deletes, an array job, and 200 at once."""

import os
import time

import drmaa


def template(script):
    jt = session.createJobTemplate()
    jt.remoteCommand = "/bin/sh"
    jt.args = ["-c", script]
    jt.workingDirectory = os.getcwd()  # the user may have no home directory
    jt.joinFiles = True
    jt.outputPath = ":/dev/null"
    return jt


def expect(what, got, want):
    assert got == want, "%s is %r, expected %r" % (what, got, want)


def ended(job):
    info = session.wait(job)
    expect("the job", info.jobId, job)
    return info.hasExited, info.exitStatus if info.hasExited else info.hasSignal


session = drmaa.Session()
session.initialize()
expect("a good job", ended(session.runJob(template("exit 0"))), (True, 0))
expect("a job that fails", ended(session.runJob(template("exit 3"))), (True, 3))

killed = session.runJob(template("echo > runs.py; exec sleep 1000"))
while not os.path.exists("runs.py"):  # RUNNING also means that it is about to start
    time.sleep(0.05)
expect("its state", session.jobStatus(killed), drmaa.JobState.RUNNING)
session.control(killed, drmaa.JobControlAction.TERMINATE)
expect("a deleted job", ended(killed), (False, True))

tasks = session.runBulkJobs(template("exit $((SGE_TASK_ID - 1))"), 1, 3, 1)
session.synchronize(tasks, drmaa.Session.TIMEOUT_WAIT_FOREVER, False)
expect("an array job", [ended(task) for task in tasks], [(True, 0), (True, 1), (True, 2)])

scripts = [template("until test -e go; do sleep 0.1; done; exit %d" % n) for n in range(3)]
many = [session.runJob(scripts[i % 3]) for i in range(200)]
print("submitted", flush=True)
expect("many jobs", [ended(job) for job in many], [(True, i % 3) for i in range(200)])
session.exit()
