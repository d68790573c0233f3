package differential

// fileCases look at standard input and output and the working directory. OUT is
// a folder of the case's own below alice's home.
func fileCases() []jobCase {
	const twoLines = "#!/bin/sh\nPROBE job\necho out; echo err >&2\n"
	return []jobCase{
		{name: "output goes to the home folder", script: twoLines},
		{name: "-cwd", opts: []string{"-cwd"}, script: twoLines},
		{name: "-wd to another folder", opts: []string{"-wd", "OUT"}, script: twoLines},
		{name: "-wd to a folder that does not exist", opts: []string{"-wd", "/no/such/folder"}, script: twoLines},
		{name: "-wd to a folder that may not be entered", opts: []string{"-wd", "/root"}, script: twoLines},
		{name: "-o to a file", opts: []string{"-o", "OUT/file"}, script: twoLines},
		{name: "-o and -e to folders", opts: []string{"-o", "OUT", "-e", "OUT"}, script: twoLines},
		{name: "-o and -e to one file", opts: []string{"-o", "OUT/both", "-e", "OUT/both"}, script: twoLines},
		{name: "-j y", opts: []string{"-j", "y"}, script: twoLines},
		{name: "-j y with -o to a file", opts: []string{"-j", "y", "-o", "OUT/joined"}, script: twoLines},
		{name: "-j y with -o to a folder and -e ignored", opts: []string{"-j", "y", "-o", "OUT", "-e", "/no/such/folder/x"}, script: twoLines},
		{name: "-o with a host", opts: []string{"-o", "otherhost:/no/such/x,cellhost:OUT/hosted"}, script: twoLines},
		{name: "-o relative to the working directory", opts: []string{"-wd", "OUT", "-o", "relative", "-e", "./e"}, script: twoLines},
		{name: "-o with pseudo variables", opts: []string{"-N", "pseudo", "-o", "OUT/$USER.$JOB_NAME.$HOSTNAME.$TASK_ID.$JOB_IDx", "-e", "$HOME/$OTHER.$JOB_ID"}, script: twoLines},
		{name: "-o with $TASK_ID of an array", opts: []string{"-t", "1-2", "-o", "OUT/out.$TASK_ID", "-j", "y"}, script: twoLines, ends: 2},
		{name: "-o to a file that exists is appended to", opts: []string{"-o", "OUT/existing"}, script: twoLines},
		{name: "-o through a symbolic link", opts: []string{"-o", "OUT/link"}, script: twoLines},
		{name: "-o to /dev/null", opts: []string{"-o", "/dev/null", "-e", "/dev/null"}, script: twoLines},
		{name: "-o where nothing can be made", opts: []string{"-o", "/proc/x"}, script: twoLines},
		{name: "-e where alice may not write", opts: []string{"-e", "/root/x"}, script: twoLines},
		{name: "-o to a file of root's", opts: []string{"-o", "OUT/roots"}, script: twoLines},
		{name: "-o to a folder that does not exist", opts: []string{"-o", "OUT/no/such/folder/x"}, script: twoLines},
		{name: "-o to a folder where alice may not write", opts: []string{"-o", "/home/bob"}, script: twoLines},
		{name: "-i from a file", opts: []string{"-i", "OUT/existing"}, script: "#!/bin/sh\nPROBE job\ncat\n"},
		{name: "-i from a file that does not exist", opts: []string{"-i", "OUT/none"}, script: "#!/bin/sh\ncat\n"},
		{name: "-i from a file that may not be read", opts: []string{"-i", "OUT/roots"}, script: "#!/bin/sh\ncat\n"},
		{name: "-i from a folder", opts: []string{"-i", "OUT"}, script: "#!/bin/sh\ncat; echo $?\n"},
		{name: "-i is not for a script from stdin", queue: attrs("shell_start_mode", "script_from_stdin"), opts: []string{"-i", "OUT/existing"}, script: "echo one\ncat\necho two\n"},
		{name: "unwritable output with an epilog", queue: attrs("prolog", "PROBE prolog", "epilog", "PROBE epilog"), opts: []string{"-o", "/proc/x"}, script: twoLines},
		{name: "a lot of output", opts: []string{"-j", "y"}, script: "#!/bin/sh\ni=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done\n"},
		{name: "a umask set by the job", script: "#!/bin/sh\numask 077\n: >OUT/private\numask 0\n: >OUT/public\n"},
		{name: "the job's folder can be used and is gone later", script: "#!/bin/sh\n: >$TMPDIR/x && mkdir $TMPDIR/d && ls $TMPDIR\necho $TMPDIR >OUT/tmpdir\n"},
	}
}
