package command

import (
	"strings"
	"testing"
)

func TestSubmitShowDelete(t *testing.T) {
	w := newWorld(t)
	w.says("alice", "qsub job.sh", "Your job 1 (\"job.sh\") has been submitted\n", "", 0)
	w.says("alice", "qsub -t 1-10:3 -terse job.sh", "2.1-10:3\n", "", 0)
	w.says("bob", "qsub -b y -terse sleep 5", "3\n", "", 0)
	w.schedule()
	w.says("alice", "qstat", `job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID 
-----------------------------------------------------------------------------------------------------------------
      1 0.50000 job.sh     alice        r     11/14/2023 22:13:20 all.q@node1                        1        
      2 0.50000 job.sh     alice        r     11/14/2023 22:13:20 all.q@node1                        1 1
      2 0.50000 job.sh     alice        r     11/14/2023 22:13:20 all.q@node1                        1 4
      2 0.50000 job.sh     alice        r     11/14/2023 22:13:20 all.q@node1                        1 7
      2 0.50000 job.sh     alice        qw    11/14/2023 22:13:20                                    1 10
`, "", 0)
	w.says("bob", "qdel 1", "bob - you do not have the necessary privileges to delete the job \"1\"\n", "", 1)
	w.says("alice", "qdel 1 2.10", "alice has registered the job 1 for deletion\nalice has deleted job-array task 2.10\n", "", 0)
	w.says("alice", "qdel 77", "denied: job \"77\" does not exist\n", "", 1)
	w.says("alice", "qstat -u bob -s r", "", "", 0)
}

// TestSubmitRefuses compares the messages about invalid command lines with those of the original
// (tested).
func TestSubmitRefuses(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]struct {
		stderr string
		exit   int
	}{
		"qsub nofile":                {"Unable to read script file because of error: error opening nofile: No such file or directory\n", 14},
		"qsub -synk y job.sh":        {"qsub: invalid option argument \"-synk\"\ndid you mean -sync?\n", 2},
		"qsub -b y":                  {"qsub: command required for a binary job\n", 2},
		"qsub":                       {"Unable to read script file because of error: no input read from stdin\n", 4},
		"qsub -l nores=1 job.sh":     {"Unable to run job: unknown resource \"nores\"\nExiting.\n", 1},
		"qsub -p x job.sh":           {"qsub: invalid priority \"x\".  Must be an integer from -1023 to 1024\n", 7},
		"qsub -q":                    {"qsub: -q option must have queue list argument\n", 2},
		"qsub -N a/b job.sh":         {"qsub: argument to -N option must not contain / \n", 2},
		"qsub -pe nope 2 -b y sleep": {"Unable to run job: job rejected: the requested parallel environment \"nope\" does not exist\nExiting.\n", 1},
	} {
		w.says("alice", text, "", want.stderr, want.exit)
	}
}

func TestNeeds(t *testing.T) {
	in := &Input{Name: "qsub", Args: strings.Fields("-@ options script.sh"), Dir: "/d", Home: "/h", Files: map[string][]byte{}}
	needs := func(want string, reads bool) {
		t.Helper()
		var got []string
		files, stdin := Needs(in)
		for _, f := range files {
			if f.Nested {
				f.Name = "nested:" + f.Name
			}
			got = append(got, f.Name)
		}
		if got := strings.Join(got, " "); got != want || stdin != reads {
			t.Errorf("needs %q, %v; expected %q, %v", got, stdin, want, reads)
		}
	}
	needs("/d/.sge_request /h/.sge_request options", false)
	in.Files["options"] = []byte("-N x\n-@ more\n")
	in.Unreadable = map[string]string{"/d/.sge_request": "x"}
	in.Files["/h/.sge_request"] = []byte("-@ defaults\n-@ script.sh\n")
	needs("nested:defaults nested:more script.sh", false)
	in.Files["script.sh"] = []byte("#!/bin/sh\n#$ -@ inside\n")
	needs("nested:defaults nested:inside nested:more", false)
	in.Args, in.Files = nil, nil
	if _, stdin := Needs(in); !stdin {
		t.Error("a submission without a script reads no standard input")
	}
}
