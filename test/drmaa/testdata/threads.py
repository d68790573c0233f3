"""python3-drmaa with threads and forks: each prints nothing if all is well."""

import glob
import os
import sys
import threading
import time

import drmaa


def template(session, script):
    jt = session.createJobTemplate()
    jt.remoteCommand = "/bin/sh"
    jt.args = ["-c", script]
    jt.workingDirectory = os.getcwd()  # the user may have no home directory
    jt.joinFiles = True
    jt.outputPath = ":/dev/null"
    return jt


def in_threads(session):
    """Several threads submit jobs and wait for them."""
    failures = []

    def work(n):
        try:
            jt = template(session, "exit %d" % n)
            for i in range(5):
                info = session.wait(session.runJob(jt), 120)
                if not info.hasExited or info.exitStatus != n:
                    failures.append((n, info))
            session.deleteJobTemplate(jt)
        except Exception as e:
            failures.append((n, e))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def in_child(session):
    """A child has no session, and may open one of its own; that of the parent goes on."""
    jt = template(session, "exit 3")
    job = session.runJob(jt)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for call in (lambda: session.runJob(jt), lambda: session.wait(job, 1), session.exit):
                try:
                    call()
                    print("a call in a child without a session succeeds", file=sys.stderr)
                    os._exit(1)
                except drmaa.NoActiveSessionException:
                    pass
            session.initialize()
            own = template(session, "exit 4")
            info = session.wait(session.runJob(own), 120)
            assert info.exitStatus == 4, info
            try:
                session.wait(job, 1)
                print("a child waits for a job of its parent", file=sys.stderr)
                os._exit(1)
            except drmaa.InvalidJobException:
                pass
            session.exit()
            status = 0
        finally:
            os._exit(status)
    # While the child works, and while other threads fork.
    info = session.wait(job, 120)
    assert info.exitStatus == 3, info
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the child ended with %d" % status


def forks_while_threads_wait(session):
    """Children are forked in the middle of calls of other threads."""
    jt = template(session, "sleep 2")
    job = session.runJob(jt)
    waiter = threading.Thread(target=session.wait, args=(job, 120))
    waiter.start()
    while waiter.is_alive():
        pid = os.fork()
        if pid == 0:
            try:
                session.jobStatus(job)
            except drmaa.NoActiveSessionException:
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        waiter.join(0.05)
    # No child of ours is left that a program could wait for by mistake.
    try:
        os.wait()
        raise AssertionError("the library has left a child")
    except ChildProcessError:
        pass


def helpers():
    """How many helpers this process has."""
    n = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:  # others may have any bytes in their names
                n += f.read() == b"execd\0drmaa-helper\0%d\0" % os.getpid()
        except OSError:
            pass
    return n


def helper_ends(session):
    """The helper ends with the session, although a child lives that was forked meanwhile."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent says so
        os._exit(0)
    os.close(reading)
    assert helpers() == 1, helpers()
    session.exit()
    end = time.time() + 60
    while helpers() and time.time() < end:
        time.sleep(0.01)
    left = helpers()
    os.close(writing)
    os.waitpid(pid, 0)
    assert left == 0, "the helper has not ended"


session = drmaa.Session()
session.initialize()
in_threads(session)
in_child(session)
forks_while_threads_wait(session)
helper_ends(session)
print("done")
