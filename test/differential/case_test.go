package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/test/gridengine"
)

// A jobCase is one submitted job. It runs at the same time as the others of its phase, so a job
// that may put a queue into error state has its own queue.
type jobCase struct {
	name   string            // a sentence; no two are the same
	queue  map[string]string // attributes of a queue of its own; nil: all.q
	opts   []string          // options of qsub
	script string            // the job script; "" when cmd is a command (-b y)
	cmd    []string          // the arguments of the script, or the command and its arguments
	phase  phase             // when it runs
	ends   int               // how many accounting records it makes; 0 means 1
	act    func(*driver, int) error
	slug   string // names its script, queue and output folder; given by allCases
}

// A phase is a period in which the cells have the same configuration. Phases run one after the
// other; the jobs of a phase run together.
type phase int

const (
	// phaseMain keeps the active_jobs directories of finished jobs for the comparison.
	phaseMain phase = iota
	// phaseRerun does not keep them: with KEEP_ACTIVE the original's execd reuses the directory of
	// the first run for a rerun, and its exit_status file then requests a rerun forever.
	phaseRerun
	// phaseParams has the settings of execd_params and qmaster_params that affect jobs.
	phaseParams
	// phaseHostError and the following phases have one job each, since these jobs may put every
	// queue of the host into error state. They have the configuration of the previous phase.
	phaseHostError
)

// conf returns the configuration of a phase. H_LOCKS, which Linux ignores, differs in each, so that
// a new phase always changes execd_params. The phases from phaseHostError on have the configuration
// of the previous phase.
func (p phase) conf() map[string]string {
	params := fmt.Sprintf("H_LOCKS=%d", 1000+int(p))
	qmaster := "none"
	switch p {
	case phaseMain:
		params += ",KEEP_ACTIVE=true"
	case phaseRerun:
		params += ",INHERIT_ENV=false,S_DESCRIPTORS=200,H_DESCRIPTORS=400,H_MAXPROC=5000,H_MEMORYLOCKED=1M,NOTIFY_KILL=TERM,NOTIFY_SUSP=none"
	case phaseParams:
		params += ",USE_QSUB_GID=true,ENABLE_ADDGRP_KILL=false,SET_LIB_PATH=true,IGNORE_NGROUPS_MAX_LIMIT=true"
		qmaster = "FORBID_RESCHEDULE=true,FORBID_APPERROR=true"
	}
	conf := map[string]string{"execd_params": params, "qmaster_params": qmaster}
	if ocs() { // its shepherd applies them to procedures of root, too
		conf["min_uid"], conf["min_gid"] = "0", "0"
	}
	return conf
}

// Programs and directories of the cells that scripts use.
const (
	probe   = gridengine.BinDir + "/probe"
	flagDir = "/home/cell/flag"
	seenDir = "/home/cell/seen"
)

// expand replaces the words that scripts, options and queue attributes use:
//
//	PROBE  the probe program
//	TOOL   the folder of the procedures that tools lists
//	OUT    a folder of the case's own, see outFiles
//	READY  tells the case's act function that the job is at this point
//	AWAIT  waits for the act function to say go
func expand(s, slug string) string {
	const flag = flagDir + "/$JOB_ID"
	return strings.NewReplacer(
		"PROBE", probe,
		"TOOL", gridengine.BinDir,
		"OUT", outDir(slug),
		"READY", "{ [ -p "+flag+".fifo ] || mkfifo "+flag+".fifo; : >"+flag+".ready; }",
		// A pipe, instead of a loop around sleep: a signal to the group would also kill the sleep,
		// and a shell that is stopped while it starts a program with vfork(2) does not appear as
		// stopped. A caught signal interrupts the open, hence the loop. The file is for a second
		// run of the job.
		"AWAIT", "{ [ -e "+flag+".go ] || until read go <"+flag+".fifo; do :; done; } 2>/dev/null",
	).Replace(s)
}

func outDir(slug string) string { return "/home/alice/" + slug }

// tools maps names in BinDir to scripts for procedures and methods.
var tools = map[string]string{
	// proc LABEL [exit=N|rerun=N] [arguments]: a procedure that is a script.
	"proc": "#!/bin/sh\nexec PROBE \"$@\"\n",
	// The kernel cannot start a script without an interpreter; execvp(3) can.
	"proc-plain": "PROBE \"$@\"\n",
	// run-job runs its arguments, as a starter method does.
	"run-job": "#!/bin/sh\nPROBE starter starter-of \"$@\"\nexec \"$@\"\n",
	// Starter methods have no arguments.
	"starter-rerun":    "#!/bin/sh\nREADY\nAWAIT\nexec PROBE starter rerun=99\n",
	"starter-exit-0":   "#!/bin/sh\nexec PROBE starter exit=0\n",
	"starter-exit-1":   "#!/bin/sh\nexec PROBE starter exit=1\n",
	"starter-exit-2":   "#!/bin/sh\nexec PROBE starter exit=2\n",
	"starter-exit-100": "#!/bin/sh\nexec PROBE starter exit=100\n",
	"starter-exit-255": "#!/bin/sh\nexec PROBE starter exit=255\n",
	// kill-self SIGNAL
	"kill-self": "#!/bin/sh\nkill -$1 $$\n",
	// method NAME PID SIGNAL: a suspend, resume or terminate method.
	"method": "#!/bin/sh\nPROBE \"$1\" with-pid \"$#\"\nkill -$3 $2\n",
	// rerun LABEL asks for a rerun once; see the function rerun.
	"rerun": "#!/bin/sh\nREADY\nAWAIT\nexec PROBE \"$1\" rerun=99\n",
	// hold-prolog waits within a procedure.
	"hold-prolog": "#!/bin/sh\necho prolog\nREADY\nAWAIT\n",
	"no-exec":     "#!/bin/sh\n",
	// edit FILE edits a file of the job directory as sites do.
	"edit": `#!/bin/sh
cd "$SGE_JOB_SPOOL_DIR" || exit
case $1 in
environment) printf 'ADDED=by prolog\nEMPTY=\n\nno variable\nUSERS=changed\nJOB_NAME=changed\nTWO=a\\nb\\\\c\nLAST=unfinished' >>environment;;
usage) sed -i -e s/^exit_status=.*/exit_status=42/ -e s/^ru_maxrss=.*/ru_maxrss=123456/ usage; printf 'ru_wallclock=99999\nru_ismrss=7\nmine=1\n' >>usage;;
esac
`,
}

// rerun returns the case of a job that asks to run again once, and prints READY and AWAIT before it
// does. The job is held until sge_execd has removed the first run: sge_execd ignores an order to
// start a job that it still knows, and the master then waits for more than a minute before it gives
// up.
func rerun(c jobCase) jobCase {
	c.ends = 2
	if c.phase == phaseMain {
		c.phase = phaseRerun
	}
	c.act = func(d *driver, job int) error {
		return d.steps(job, d.ready, d.hold, d.let, d.awaitEnd, d.forgotten, d.release)
	}
	return c
}

// allCases returns the table in the order of submission, which determines the job numbers.
func allCases() []jobCase {
	var all []jobCase
	for _, table := range [][]jobCase{
		shellCases(), argumentCases(), environmentCases(), fileCases(), procedureCases(), starterCases(),
		peCases(), endCases(), signalCases(), limitCases(), placeCases(), checkpointCases(), paramCases(), hostErrorCases(),
	} {
		all = append(all, table...)
	}
	for i := range all {
		c := &all[i]
		c.slug = fmt.Sprintf("c%03d", i)
		c.ends = max(c.ends, 1)
		c.script = expand(c.script, c.slug)
		for j := range c.opts {
			c.opts[j] = expand(c.opts[j], c.slug)
		}
		// Rows of the table may share a slice.
		c.cmd = slices.Clone(c.cmd)
		for j := range c.cmd {
			c.cmd[j] = expand(c.cmd[j], c.slug)
		}
		for key, value := range c.queue {
			c.queue[key] = expand(value, c.slug)
		}
	}
	return all
}

// probeScript is a job that only runs the probe.
const probeScript = "#!/bin/sh\nPROBE job \"$@\"\n"

// attrs returns attributes of a queue from alternating names and values.
func attrs(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}
