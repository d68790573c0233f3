"""Submits, watches and cancels jobs. Arguments: the directory of the commands, a working directory."""

import sys
import threading
import typing

import execd_client
from execd_client import Phase, Submission, Tasks

commands, work = sys.argv[1:]
client = execd_client.Client(commands=commands, poll=0.2)
failures = []


def check(what: str, got: typing.Any, want: typing.Any) -> None:
    if got != want:
        failures.append(f"{what}: {got!r}, want {want!r}")


def submit(**fields: typing.Any) -> execd_client.Job:
    return client.submit(Submission(directory=work, **fields))


value = 'a, "b"\n$c'
good = submit(text='printf "%s|%s" "$VALUE" "$1"; echo wrong >&2', args=["x y"], env={"VALUE": value}, name="good")
bad = submit(command=["/bin/sh", "-c", "exit 3"], pe="smp", slots=2, resources={"h_rt": "0:10:0"})
array = submit(text="echo task $SGE_TASK_ID; echo error >&2", tasks=Tasks(1, 5, 2), errors="errors.$TASK_ID")
killed = submit(command=["/bin/sleep", "1000"], name="killed")
held = submit(command=["/bin/true"], hold=True, after=[killed.id])

print("submitted", flush=True)
sys.stdin.readline()  # the daemon is killed and started again

while (status := client.status(killed.id)).phase is not Phase.RUNNING:
    check("the phase", status.phase, Phase.PENDING)
check("the queue", status.tasks[0].queue, "all.q@node1")
check("the held job", client.status(held.id).tasks[0].state, "hqw")
check("usage of a running job", len(client.usage(killed.id)) <= 1, True)
try:
    client.wait(killed.id, timeout=0.1)
    failures.append("wait has ended too early")
except TimeoutError:
    pass
client.cancel(killed.id, held.id)

ended = client.wait(good.id, bad.id, array.id, killed.id, held.id)
check("success", [s.succeeded for s in ended], [True, False, True, False, False])
check("records", [len(s.records) for s in ended], [1, 1, 3, 1, 0])
check("exit status", [s.records[0].exit_status for s in ended[:4]], [0, 3, 0, 137])
check("signals", [s.records[0].signal for s in ended[:4]], [0, 0, 0, 9])
check("the output", client.logs(good), f"{value}|x ywrong\n".encode())
for task in (1, 3, 5):
    check("the output of a task", client.logs(array, task), f"task {task}\n".encode())
check("usage", [u.task for u in client.usage(array.id)], [1, 3, 5])
record = ended[0].records[0]
check("the record", (record.host, record.queue, record.slots, record.failed), ("node1", "all.q", 1, 0))
check("times", record.start is not None and record.end is not None and record.start <= record.end, True)

try:
    submit(command=["/bin/true"], queue="nosuch.q")
    failures.append("a job in a queue that does not exist was submitted")
except execd_client.CommandError as error:
    print("error", str(error).replace("\n", "|"))
try:
    client.cancel(4711)
    failures.append("a job that does not exist was deleted")
except execd_client.CommandError as error:
    check("the error of qdel", str(error), 'denied: job "4711" does not exist')
try:
    client.status(4711)
    failures.append("a job that does not exist has a status")
except execd_client.UnknownJob:
    pass
cases: list[dict[str, typing.Any]] = [
    {},
    {"text": "true", "command": ["true"]},
    {"text": "true", "resources": {"h_rt": "1,h_vmem=1"}},
    {"text": "true", "output": "a:b"},
    {"text": "true", "tasks": Tasks(3, 1)},
    {"text": "true", "slots": 2},
    {"text": "true", "env": {"a=b": "c"}},
]
for fields in cases:
    try:
        submit(**fields)
        failures.append(f"{fields} was submitted")
    except ValueError:
        pass

# Several threads use one client.
results = []


def run(i: int) -> None:
    job = submit(command=["/bin/sh", "-c", f"exit {i}"])
    results.append((i, client.wait(job.id)[0].records[0].exit_status))


threads = [threading.Thread(target=run, args=[i]) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check("threads", sorted(results), [(i, i) for i in range(4)])

print("\n".join(failures) or "good")
