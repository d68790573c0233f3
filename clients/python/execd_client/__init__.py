"""Submit, watch and cancel jobs of execd standalone, or of a Grid Engine cell.

The module runs the commands (qsub, qstat, qdel, qacct) instead of speaking to the daemon's socket.
A process per call takes some milliseconds. In return everything that a user gets from the commands is
there (option files, verifiers, the search for the socket, the wait for a daemon that is being restarted),
an error has exactly the text of the command, and the same program works on a real Grid Engine cell.

    import execd_client

    client = execd_client.Client()
    job = client.submit(execd_client.Submission(command=["sleep", "10"], resources={"h_rt": "0:1:0"}))
    [status] = client.wait(job.id)
    print(status.succeeded, client.logs(job))

A Client may be used by several threads. The module needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import subprocess
import time
import xml.etree.ElementTree
from datetime import datetime
from typing import Mapping, Optional, Sequence

__all__ = [
    "Client",
    "CommandError",
    "Job",
    "Phase",
    "Record",
    "Status",
    "Submission",
    "TaskStatus",
    "Tasks",
    "UnknownJob",
    "Usage",
]


class CommandError(Exception):
    """A command failed. Its text is what the command printed."""

    def __init__(self, command: Sequence[str], status: int, text: str) -> None:
        super().__init__(text or f"cannot run {command[0]}: exit status {status}")
        self.command = list(command)
        self.status = status
        """The exit status; negative if a signal ended the command."""
        self.text = text


class UnknownJob(LookupError):
    """The job is not pending, not running, and has no accounting record."""


class Phase(str, enum.Enum):
    """How far a job or a task has come."""

    PENDING = "pending"
    """Waits; also if it is held."""
    RUNNING = "running"
    """Runs; also while it starts and while it is deleted."""
    SUSPENDED = "suspended"
    FAILING = "error"
    """Is in error state: it does not run before qmod -cj."""
    FINISHED = "finished"
    """Has left qstat."""


@dataclasses.dataclass(frozen=True)
class Tasks:
    """The task numbers first, first+step, ... up to last."""

    first: int
    last: int
    step: int = 1


@dataclasses.dataclass
class Submission:
    """A job to submit. Exactly one of script, text and command is set.

    Fields win over the #$ lines of a script; the name, the directory and the output files are always
    passed to qsub, so that the client knows where the output is.
    """

    script: Optional[str] = None
    """The path of a script."""
    text: Optional[str] = None
    """The text of a script."""
    command: Sequence[str] = ()
    """A program and its arguments, which no shell reads (-b y -shell n)."""
    args: Sequence[str] = ()
    """The arguments of script or text."""
    name: Optional[str] = None
    """-N; the default is the base name of script or of the program, or "job"."""
    directory: Optional[str] = None
    """-wd; the default is the working directory of this process."""
    queue: Optional[str] = None
    project: Optional[str] = None
    pe: Optional[str] = None
    """The parallel environment (-pe), with slots."""
    slots: Optional[int] = None
    resources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """-l, such as {"h_rt": "0:10:0"}."""
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """-v."""
    tasks: Optional[Tasks] = None
    """-t: an array job."""
    after: Sequence[int] = ()
    """-hold_jid: starts after these jobs have finished."""
    hold: bool = False
    """-h: waits until qrls releases it."""
    output: Optional[str] = None
    """The file of standard output (-o), relative to directory. $JOB_ID and $TASK_ID stand for the
    numbers. The default is NAME.o$JOB_ID, for array jobs NAME.o$JOB_ID.$TASK_ID. The path must not
    contain ":" or ",", nor "$" for anything else."""
    errors: Optional[str] = None
    """The file of standard error (-e), in the same form; None: the same file (-j y)."""
    options: Sequence[str] = ()
    """Further options of qsub, as words."""

    def _name(self) -> str:
        if self.name:
            return self.name
        if self.script:
            return os.path.basename(self.script)
        if self.command:
            return os.path.basename(self.command[0])
        return "job"

    def _file(self, directory: str, file: str) -> str:
        path = os.path.join(directory, file)
        if re.search(r"[$:,]", path.replace("$JOB_ID", "").replace("$TASK_ID", "")):
            raise ValueError(f'invalid output file {path!r}: qsub gives "$", ":" and "," a meaning')
        if os.path.isdir(path):
            raise ValueError(f"invalid output file {path!r}: it is a directory")
        return path

    def _environment(self) -> tuple[list[str], dict[str, str]]:
        """Returns options, and variables of qsub for values that qsub would split."""
        args: list[str] = []
        env: dict[str, str] = {}
        for name, value in sorted(self.env.items()):
            if not name or re.search("[=,\0]", name) or "\0" in value:
                raise ValueError(f"invalid variable {name!r}: expected a name without = and comma, and no zero byte")
            if re.search("[,\\\\\"' \t\n]", value):
                env[name] = value
                args += ["-v", name]
            else:
                args += ["-v", f"{name}={value}"]
        return args, env

    def _line(self) -> tuple[list[str], dict[str, str], Job]:
        """Returns the arguments of qsub, additions to its environment, and what is known of the job."""
        if [bool(self.script), self.text is not None, bool(self.command)].count(True) != 1:
            raise ValueError("expected exactly one of script, text and command")
        directory = os.path.abspath(self.directory or ".")
        name = self._name()
        output = self._file(directory, self.output or f"{name}.o$JOB_ID" + (".$TASK_ID" if self.tasks else ""))
        errors = self._file(directory, self.errors) if self.errors else output
        args = ["-terse", "-N", name, "-wd", directory, "-o", output]
        args += ["-j", "n", "-e", errors] if self.errors else ["-j", "y"]
        for option, value in (("-q", self.queue), ("-P", self.project)):
            if value:
                args += [option, value]
        if self.pe:
            args += ["-pe", self.pe, str(self.slots or 1)]
        elif self.slots is not None:
            raise ValueError("slots are set, but no parallel environment")
        for resource, value in sorted(self.resources.items()):
            if not resource or re.search("[=,]", resource) or "," in value:
                raise ValueError(f"invalid resource request {resource}={value}: names and values must not contain a comma")
            args += ["-l", f"{resource}={value}"]
        more, env = self._environment()
        args += more
        if t := self.tasks:
            if t.first < 1 or t.last < t.first or t.step < 1:
                raise ValueError(f"invalid tasks {t.first}-{t.last}:{t.step}: expected 1 <= first <= last")
            args += ["-t", f"{t.first}-{t.last}:{t.step}"]
        for job in self.after:
            args += ["-hold_jid", str(int(job))]
        if self.hold:
            args += ["-h"]
        args += self.options
        if self.command:
            args += ["-shell", "n", "-b", "y", _operand(self.command[0]), *self.command[1:]]
        else:
            args += ["-b", "n", _operand(self.script) if self.script else "-", *self.args]
        return args, env, Job(0, self.tasks, output, errors)


def _operand(path: str) -> str:
    return "./" + path if path.startswith("-") else path  # no option


@dataclasses.dataclass(frozen=True)
class Job:
    """A submitted job. It is plain data: a program may save it and use it in its next run."""

    id: int
    tasks: Optional[Tasks]
    output: str
    """The path of standard output, absolute, with $JOB_ID and $TASK_ID."""
    errors: str
    """The same for standard error; equal to output if both are one file."""

    def output_file(self, task: int = 0) -> str:
        """Returns the path of a task's standard output. The task is 0 for a job that is not an array job."""
        return self._fill(self.output, task)

    def error_file(self, task: int = 0) -> str:
        """Returns the path of a task's standard error."""
        return self._fill(self.errors, task)

    def _fill(self, path: str, task: int) -> str:
        return path.replace("$JOB_ID", str(self.id)).replace("$TASK_ID", str(task or "undefined"))


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a task has used so far."""

    task: int
    """The number of the task; 0 if the job is not an array job."""
    cpu: float
    """Seconds of processor time."""
    memory: float
    """Gigabyte seconds."""
    io: float
    """Gigabytes."""
    max_vmem: int
    """Bytes; 0 if unknown."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The accounting record of a run of a task (accounting(5))."""

    task: int
    """The number of the task; 0 if the job is not an array job."""
    queue: str
    host: str
    slots: int
    failed: int
    """A code of accounting(5); 0 if nothing went wrong."""
    failed_text: str
    exit_status: int
    signal: int
    """The signal that ended the job, from the exit status; 0 if none."""
    start: Optional[datetime]
    """Local time; None if the task did not start."""
    end: Optional[datetime]
    wallclock: float
    """Seconds."""
    usage: Usage
    fields: Mapping[str, str]
    """All values as qacct prints them."""


@dataclasses.dataclass(frozen=True)
class TaskStatus:
    """A line of qstat: a running task, or several pending ones."""

    tasks: str
    """Task numbers, such as 1-5:2; empty if the job is not an array job."""
    phase: Phase
    state: str
    """The letters of qstat(1), such as hqw."""
    queue: str
    """Where it runs, as queue@host."""
    slots: int
    since: Optional[datetime]
    """When it was started or, if it is pending, submitted; local time."""


@dataclasses.dataclass
class Status:
    """The status of a job."""

    id: int
    phase: Phase
    """That of the tasks that have come farthest: a job with a running task is running."""
    tasks: list[TaskStatus] = dataclasses.field(default_factory=list)
    """Pending and running tasks, in the order of qstat."""
    records: list[Record] = dataclasses.field(default_factory=list)
    """The accounting records of a finished job, one per task and run. There are none if the job was
    deleted before it ran."""

    @property
    def succeeded(self) -> bool:
        """Whether the job has finished, ran, and every task exited with 0. The last run of a task counts."""
        last = {r.task: r.failed == 0 and r.exit_status == 0 for r in self.records}
        return self.phase is Phase.FINISHED and bool(last) and all(last.values())


_ORDER = [Phase.PENDING, Phase.FAILING, Phase.SUSPENDED, Phase.RUNNING]
_TERSE = re.compile(r"^(\d+)(?:\.\d+-\d+:\d+)?$", re.MULTILINE)
_USAGE = re.compile(r"^usage +(\d+): +(.*)$", re.MULTILINE)


class Client:
    """Runs the commands.

    commands is the directory of qsub, qstat, qdel and qacct; by default they are searched in PATH of env.
    All methods raise FileNotFoundError if they are not there. env is the environment of the commands, by
    default that of this process; EXECD_SOCKET in it names the daemon. poll is the longest pause, in seconds, between two calls of qstat in wait.

    accounting_delay is how long, in seconds, wait and status wait for the accounting record of a job that
    has left qstat. execd standalone writes the record earlier, so that 0 is right for it. Grid Engine
    writes it up to accounting_flush_time (sge_conf(5)) later: 30 is enough with its defaults.
    """

    def __init__(
        self,
        commands: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        poll: float = 5.0,
        accounting_delay: float = 0.0,
    ) -> None:
        self.commands = commands
        self.env = env
        self.poll = poll
        self.accounting_delay = accounting_delay

    def _run(self, name: str, *args: str, text: Optional[str] = None, env: Optional[Mapping[str, str]] = None) -> str:
        path = os.path.join(self.commands, name) if self.commands else name
        variables = dict(os.environ if self.env is None else self.env)
        variables.update(env or {})
        done = subprocess.run(
            [path, *args],
            input=(text or "").encode("utf-8", "surrogateescape"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables,
            check=False,
        )
        out = done.stdout.decode("utf-8", "surrogateescape")
        if done.returncode:
            said = done.stderr.decode("utf-8", "surrogateescape").strip() or out.strip()
            raise CommandError([name, *args], done.returncode, said)
        return out

    def submit(self, submission: Submission) -> Job:
        """Submits a job (qsub). A CommandError has the reason for which qsub refused the job."""
        args, env, job = submission._line()
        out = self._run("qsub", *args, text=submission.text, env=env)
        found = _TERSE.search(out)  # other lines may be there, from option files and verifiers
        if not found:
            raise ValueError(f"cannot find the number of the job in what qsub printed: {out!r}")
        return dataclasses.replace(job, id=int(found[1]))

    def cancel(self, *jobs: int) -> None:
        """Deletes jobs (qdel). Running jobs finish a moment later: wait returns then.

        A CommandError is raised if one of them does not exist or belongs to somebody else; the others
        are deleted.
        """
        if jobs:
            self._run("qdel", *(str(int(job)) for job in jobs))

    def logs(self, job: Job, task: int = 0) -> bytes:
        """Returns what a job has printed so far: standard output and, if errors is None, standard error.

        FileNotFoundError is raised if the job has not started yet.
        """
        with open(job.output_file(task), "rb") as file:
            return file.read()

    def status(self, job: int) -> Status:
        """Returns the status of a job. UnknownJob is raised also if it was deleted before it ran."""
        return self._list().get(job) or Status(job, Phase.FINISHED, records=self.records(job))

    def wait(self, *jobs: int, timeout: Optional[float] = None) -> list[Status]:
        """Waits until jobs have finished, and returns their status in the same order.

        A job that qstat does not list, and that has no record, has no records: it was deleted before it
        ran, or never existed. TimeoutError is raised after timeout seconds; the jobs continue.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = min(self.poll, 0.1)
        while not self._list().keys().isdisjoint(jobs):
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"jobs have not finished in {timeout} seconds: {jobs}")
            time.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))
            pause = min(self.poll, 2 * pause)
        finished = []
        for job in jobs:
            try:
                finished.append(Status(job, Phase.FINISHED, records=self.records(job)))
            except UnknownJob:
                finished.append(Status(job, Phase.FINISHED))
        return finished

    def records(self, job: int) -> list[Record]:
        """Returns the accounting records of a job, one per task and run, in the order of the tasks
        (qacct -j).

        UnknownJob is raised if there is none after accounting_delay.
        """
        end = time.monotonic() + self.accounting_delay
        while True:
            try:
                return _records(self._run("qacct", "-j", str(int(job))))
            except CommandError as error:
                if "not found" not in error.text:
                    raise
                if not self.accounting_delay or time.monotonic() > end:
                    raise UnknownJob(f"job {job}: it is not pending, not running, and has no accounting record") from error
            time.sleep(0.5)

    def usage(self, job: int) -> list[Usage]:
        """Returns what the tasks of a job use (qstat -j) or have used (qacct -j).

        Running tasks come without those that have finished. UnknownJob is raised if there is no such job.
        """
        status = self.status(job)
        if status.phase is Phase.FINISHED:
            return [record.usage for record in status.records]
        try:
            out = self._run("qstat", "-j", str(int(job)))
        except CommandError as error:
            if "do not exist" in error.text:
                return self.usage(job)  # it has just finished
            raise
        found = []
        for task, line in _USAGE.findall(out):
            values = dict(word.strip().partition("=")[::2] for word in line.split(","))
            found.append(
                Usage(
                    int(task) if status.tasks[0].tasks else 0,
                    _clock(values.get("cpu", "")),
                    _amount(values.get("mem", "")) / 2**30,
                    _amount(values.get("io", "")),
                    int(_amount(values.get("maxvmem", ""))),
                )
            )
        return found

    def _list(self) -> dict[int, Status]:
        """Returns the jobs that qstat lists, by their numbers."""
        document = xml.etree.ElementTree.fromstring(self._run("qstat", "-xml", "-u", "*"))
        jobs: dict[int, Status] = {}
        for line in document.iter("job_list"):
            number = int(line.findtext("JB_job_number", "0"))
            state = line.findtext("state", "")
            since = line.findtext("JAT_start_time") or line.findtext("JB_submission_time")
            task = TaskStatus(
                line.findtext("tasks", ""),
                _phase(state),
                state,
                line.findtext("queue_name", ""),
                int(line.findtext("slots", "0")),
                datetime.fromisoformat(since) if since else None,
            )
            job = jobs.setdefault(number, Status(number, task.phase))
            job.tasks.append(task)
            job.phase = max(job.phase, task.phase, key=_ORDER.index)
        return jobs


def _phase(state: str) -> Phase:
    """Translates the letters of qstat(1)."""
    if "E" in state:
        return Phase.FAILING
    if re.search("[sST]", state):
        return Phase.SUSPENDED
    return Phase.PENDING if "qw" in state else Phase.RUNNING


def _records(text: str) -> list[Record]:
    """Reads what qacct -j prints. What cannot be read is 0 or None."""
    records = []
    for block in re.split(r"^=+$", text, flags=re.MULTILINE)[1:]:
        words = (line.partition(" ") for line in block.splitlines() if line.strip())
        fields = {name: value.strip() for name, _, value in words}

        def number(name: str, fields: Mapping[str, str] = fields) -> int:
            found = re.match(r"-?\d+", fields.get(name, ""))
            return int(found[0]) if found else 0

        def at(name: str, fields: Mapping[str, str] = fields) -> Optional[datetime]:
            try:
                return datetime.strptime(fields.get(name, ""), "%a %b %d %H:%M:%S %Y")
            except ValueError:
                return None

        status = number("exit_status")
        records.append(
            Record(
                task=number("taskid"),
                queue=fields.get("qname", ""),
                host=fields.get("hostname", ""),
                slots=number("slots"),
                failed=number("failed"),
                failed_text=fields.get("failed", "").partition(" ")[2].lstrip(" :"),
                exit_status=status,
                signal=max(0, status - 128),
                start=at("start_time"),
                end=at("end_time"),
                wallclock=_amount(fields.get("ru_wallclock", "")),
                usage=Usage(
                    number("taskid"),
                    _amount(fields.get("cpu", "")),
                    _amount(fields.get("mem", "")) / 2**30,
                    _amount(fields.get("io", "")) / 2**30,
                    int(_amount(fields.get("maxvmem", ""))),
                ),
                fields=fields,
            )
        )
    return sorted(records, key=lambda record: record.task)


def _amount(text: str) -> float:
    """Reads a number with a unit; K, M, G and T are powers of 1024. What it cannot read is 0."""
    found = re.fullmatch(r"([0-9.eE+-]+?) ?([KMGTP]?)B?s?", text.strip())
    try:
        return float(found[1]) * 1024.0 ** " KMGTP".index(found[2] or " ") if found else 0.0
    except ValueError:
        return 0.0


def _clock(text: str) -> float:
    """Reads [days:]hours:minutes:seconds."""
    try:
        return sum(float(n) * factor for n, factor in zip(reversed(text.split(":")), (1, 60, 3600, 86400)))
    except ValueError:
        return 0.0
