package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/cgroup"
)

// benchUser returns the user of the jobs. If the caller is root, it is nobody, because this account
// exists everywhere.
func benchUser() (*userdb.User, error) {
	if uid := os.Getuid(); uid != 0 {
		return userdb.System().UserID(uint32(uid))
	}
	return userdb.System().User("nobody")
}

// maker creates jobs in the same way as a daemon that starts a shepherd for each.
type maker struct {
	user  *userdb.User
	spool *jobdir.Spool
	// tmp is the tmpdir of the queue, and the working directory of all jobs.
	tmp  string
	last int
	// groups makes control groups for the jobs; nil for none.
	groups *cgroup.Manager
}

func newMaker(dir string) (*maker, error) {
	user, err := benchUser()
	if err != nil {
		return nil, err
	}
	spool, err := jobdir.OpenSpool(filepath.Join(dir, "spool"))
	if err != nil {
		return nil, err
	}
	return &maker{user: user, spool: spool, tmp: filepath.Join(dir, "tmp")}, nil
}

// command describes a job's program and its procedures.
type command struct {
	argv       []string
	procedures bool // prolog and epilog
	edit       func(d *job.Description)
}

// madeJob is a job that is ready to be started.
type madeJob struct {
	maker  *maker
	id     job.ID
	dir    *jobdir.Dir
	tmpdir jobdir.Tmpdir
	group  *cgroup.Group // nil for none
}

func (m *maker) make(c command) (j *madeJob, err error) {
	m.last++
	d := m.describe(c)
	j = &madeJob{maker: m, id: d.ID}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.remove())
		}
	}()
	j.tmpdir, err = jobdir.MakeTmpdir(m.tmp, jobdir.TmpdirName(d.ID, d.Queue), int(m.user.UID), int(m.user.GID))
	if err != nil {
		return j, err
	}
	j.dir, err = m.spool.Create(d, jobdir.CreateOptions{
		Hosts:  []jobdir.PEHost{{Host: d.Host, Slots: 1, Queue: d.Queue + "@" + d.Host}},
		NoSync: true, // otherwise the benchmark would measure the disk
	})
	if err != nil {
		return j, err
	}
	if m.groups != nil {
		if j.group, err = m.groups.Create(cgroup.Name(d.ID), groupLimits(d)); err != nil {
			return j, err
		}
		if err := j.dir.WriteFile(jobdir.FileCgroup, []byte(j.group.Paths().Format())); err != nil {
			return j, err
		}
	}
	return j, j.dir.WriteTmpdir(j.tmpdir)
}

// describe returns a job of the default queue, submitted with
// qsub -b y -shell n -o /dev/null -e /dev/null.
func (m *maker) describe(c command) *job.Description {
	const queue, host = "all.q", "localhost"
	id := job.ID{Job: m.last}
	d := &job.Description{
		ID: id, Name: "bench", Owner: m.user.Name, Account: "sge",
		SubmissionTime: time.Unix(time.Now().Unix(), 0),
		Queue:          queue, Host: host,
		QueueTmpdir: m.tmp, Tmpdir: filepath.Join(m.tmp, jobdir.TmpdirName(id, queue)),
		Command: job.Command{
			File: c.argv[0], Args: c.argv[1:], Binary: true, NoShell: true,
			Shell: "/bin/sh", StartMode: job.PosixCompliant, LoginShell: true,
		},
		Cwd:       m.tmp,
		HostSlots: 1, Limits: job.Unlimited(),
		ScriptTimeout: 2 * time.Minute,
		NotifyKill:    job.Notification{Kind: job.NotifyDefault},
		NotifySusp:    job.Notification{Kind: job.NotifyDefault},
		InheritEnv:    true, AddGroupKill: true,
	}
	for i, path := range []string{"/dev/null", "/dev/null", "/dev/null"} {
		d.Streams[i].Path = path
	}
	if c.procedures {
		d.Prolog, d.Epilog = "/bin/true $job_id $job_owner", "/bin/true $job_id $job_owner"
	}
	if os.Getuid() == 0 {
		d.AddGroupID = 1<<30 + m.last%1000
	}
	if c.edit != nil {
		c.edit(d)
	}
	d.Environment = m.environment(d)
	return d
}

func (m *maker) environment(d *job.Description) []string {
	number := strconv.Itoa(d.ID.Job)
	return []string{
		"TERM=", "PATH=" + d.Tmpdir + ":/usr/local/bin:/bin:/usr/bin", "REQNAME=" + d.Name, "REQUEST=" + d.Name,
		"HOME=" + m.user.Home, "SHELL=" + m.user.Shell, "USER=" + d.Owner, "LOGNAME=" + d.Owner, "JOB_NAME=" + d.Name,
		"JOB_SCRIPT=" + d.Command.File, "SGE_BINARY_PATH=/usr/lib/gridengine/lx-amd64", "HOSTNAME=" + d.Host,
		"QUEUE=" + d.Queue, "JOB_ID=" + number, "ENVIRONMENT=BATCH", "ARC=lx-amd64", "NQUEUES=1", "NSLOTS=1",
		"NHOSTS=1", "RESTARTED=0", "TMPDIR=" + d.Tmpdir, "TMP=" + d.Tmpdir, "SGE_O_HOME=" + m.user.Home,
		"SGE_O_LOGNAME=" + d.Owner, "SGE_O_PATH=/usr/local/bin:/usr/bin:/bin", "SGE_O_SHELL=/bin/sh",
		"SGE_O_HOST=" + d.Host, "SGE_O_WORKDIR=" + d.Cwd, "SGE_CELL=default", "SGE_TASK_ID=undefined",
		"SGE_TASK_FIRST=undefined", "SGE_TASK_LAST=undefined", "SGE_TASK_STEPSIZE=undefined",
		"SGE_ARCH=lx-amd64", "SGE_ROOT=/var/lib/gridengine", "SGE_ACCOUNT=sge",
		"SGE_JOB_SPOOL_DIR=" + m.spool.JobPath(d.ID),
	}
}

// check returns an error unless the job has run and finished successfully.
func (j *madeJob) check() error {
	failed, done, err := j.dir.ExitStatus()
	switch {
	case err != nil:
		return err
	case !done:
		return errors.New("the shepherd has not written an exit status")
	case failed != 0:
		_, reason, _ := j.dir.FirstError()
		return fmt.Errorf("the shepherd has failed with %d: %s", failed, reason)
	}
	u, err := j.dir.Usage()
	switch {
	case err != nil:
		return err
	case u == nil:
		return errors.New("the shepherd has not run the job")
	}
	return nil
}

// remove removes the job's files.
func (j *madeJob) remove() error {
	var errs []error
	if j.group != nil {
		errs = append(errs, j.group.Remove(deadline))
	}
	if j.tmpdir.Path != "" {
		user := j.maker.user
		errs = append(errs, jobdir.RemoveTmpdir(j.tmpdir, jobdir.RemoveOptions{UID: int(user.UID), GID: int(user.GID)}))
	}
	if j.dir != nil {
		errs = append(errs, j.dir.Close(), j.maker.spool.Remove(j.id, jobdir.KeepNone, false))
	}
	return errors.Join(errs...)
}
