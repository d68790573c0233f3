package differential

import (
	"fmt"
	"strings"
)

// environmentCases look at the variables a job gets, and at how its arrays,
// names and requests show in them.
func environmentCases() []jobCase {
	many := make([]string, 400)
	for i := range many {
		many[i] = fmt.Sprintf("MANY_%03d=value %d", i, i)
	}
	long := strings.Repeat("0123456789", 850) // 8500; the original reads lines of up to 9999 bytes
	return []jobCase{
		{name: "-V passes the submitter's environment", opts: []string{"-V"}, script: probeScript},
		{name: "-v passes some variables", opts: []string{"-v", "A=1,B=two words,EMPTY=,HOME,C=a=b"}, script: probeScript},
		{name: "-v with backslashes, quotes and more than ASCII", opts: []string{"-v", `D=\\host\share,W=C:\dir\new,Q="x'y,U=grün €,S=  blanks  `}, script: probeScript},
		{name: "-v with a value of two lines", opts: []string{"-v", "TWO=first\nsecond,AFTER=1"}, script: probeScript},
		{name: "-v cannot replace what execd sets", opts: []string{"-v", "JOB_ID=0,QUEUE=x,HOME=/x,TMPDIR=/x,SGE_TASK_ID=9,USER=root,SHELL=/x,NSLOTS=77,SGE_ROOT=/x"}, script: probeScript},
		{name: "-v PATH is put behind the job's folder", opts: []string{"-v", "PATH=/usr/bin:/bin:/x y"}, script: probeScript},
		{name: "400 variables", opts: []string{"-v", strings.Join(many, ",")}, script: probeScript},
		{name: "a variable of 8500 bytes", opts: []string{"-v", "LONG=" + long + ",AFTER=1"}, script: probeScript},
		{name: "variables of the dynamic linker and the shells reach the job", opts: []string{"-v", "LD_LIBRARY_PATH=/x,LD_BIND_NOW=1,IFS=:,BASH_ENV=/dev/null,ENV=/dev/null,LANG=C,LC_ALL=C"}, script: probeScript},
		{
			name:  "variables of the dynamic linker and the shells do not reach root's prolog",
			queue: attrs("prolog", "root@PROBE prolog", "epilog", "bob@PROBE epilog"),
			opts:  []string{"-v", "LD_LIBRARY_PATH=/x,LD_BIND_NOW=1,BASH_ENV=/dev/null,ENV=/dev/null,ENVOY=1,LANG=C,LC_ALL=../x,TZDIR=/x,KRB5_CONFIG=/x,NLSPATH=/x"}, script: probeScript,
		},
		{
			name:  "names of Grid Engine with values of the user's do not reach root's prolog",
			queue: attrs("prolog", "root@PROBE prolog", "epilog", "PROBE epilog"),
			opts: []string{"-v", "SGE_BINARY_PATH=/evil,__SGE_PREFIX2__BINARY_PATH=/evil,SGE_RSH_COMMAND=/evil,PE=/evil,PE_HOSTFILE=/evil,SGE_CKPT_DIR=/evil," +
				"SGE_CKPT_ENV=/evil,SGE_QMASTER_PORT=/evil,SGE_EXECD_PORT=/evil,SGE_NOTIFY_KILL_SIGNAL=/evil,SGE_STARTER_SHELL_PATH=/evil,TZ=/evil,SGE_BINDING=/evil"},
			script: probeScript,
		},
		{name: "an array", opts: []string{"-t", "3-9:3", "-N", "arr"}, script: probeScript, ends: 3},
		{name: "an array whose tasks end differently", opts: []string{"-t", "1-3", "-b", "y", "-N", "ends"}, cmd: []string{"exit $SGE_TASK_ID"}, ends: 3},
		{name: "account, name and project show", opts: []string{"-A", "acct.x", "-N", "a.name-1"}, script: probeScript},
		{name: "mail options", opts: []string{"-m", "n", "-M", "nobody@localhost,root@localhost"}, script: probeScript},
		{name: "-R, -r, -p and -js", opts: []string{"-R", "y", "-r", "y", "-p", "-5", "-js", "3"}, script: probeScript},
		{name: "a queue with processors", queue: attrs("processors", "0-1"), script: probeScript},
		{name: "a queue with a tmpdir that does not exist", queue: attrs("tmpdir", "/tmp/made/by/execd"), script: probeScript},
		{name: "-l with a request that is not a limit", opts: []string{"-l", "arch=lx-amd64"}, script: probeScript},
	}
}

// placeCases look at nice values and core binding.
func placeCases() []jobCase {
	return []jobCase{
		{name: "a queue with priority 7", queue: attrs("priority", "7"), script: probeScript},
		{name: "a queue with priority 19 and procedures", queue: attrs("priority", "19", "prolog", "PROBE prolog", "epilog", "root@PROBE epilog"), script: probeScript},
		{name: "a queue with priority -3", queue: attrs("priority", "-3"), script: probeScript},
		{name: "binding to a given core", opts: []string{"-binding", "explicit:0,0"}, script: probeScript},
		// Cores are given away in the order of the jobs' starts, so one job per
		// phase asks for any.
		{name: "binding to one core", phase: phaseRerun, opts: []string{"-binding", "linear:1"}, script: probeScript},
		{name: "binding as a variable only", phase: phaseParams, opts: []string{"-binding", "env", "linear:1"}, script: probeScript},
		{name: "binding that cannot be had", opts: []string{"-binding", "linear:1000"}, script: probeScript},
	}
}
