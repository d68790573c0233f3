package command

import (
	"strings"
	"testing"
)

// lines are command lines to begin with: one for each command, and some that are odd.
var lines = []string{
	"qsub -t 1-4 -l h_rt=10 -hold_jid x -pe smp 2-4 job.sh a b", "qsub -", "qsub -@ job.sh -b y", "qsub -verify -b y x", "qsub -w v job.sh", "qalter -p -3 1.2 -t 3",
	"qresub -h u 1", "qdel -u * 1 -t 1-3", "qdel -x", "qhold -h uos 1.1", "qrls -h n 1", "qmod -s 1 all.q -t 1 -f", "qmod -rq *@@g", "qmod --clear",
	"qrsub -d 60 -l slots=1", "qrdel -u * x", "qrstat -ar 1 -xml", "qstat -f -F -l h_rt=1 -q all.q -pe smp -U alice -s hus -g dt", "qstat -j 1,x* -json", "qstat -g c -xml",
	"qstat -explain aAcE -qs u", "qstat -j", "qhost -F slots -q -j -l arch=x -h node1", "qquota -u * -h @g -l slots -xml", "qselect -qs d -U @g", "sge_share_mon -x -f job_count,node_name -n",
	"qconf -sq all.q@node1", "qconf -sq * -sql -sconf -ssconf -sc", "qconf -Aq job.sh -Mrqs job.sh a", "qconf -mattr queue slots 3,[node1=4] all.q@node1", "qconf -aattr queue pe_list smp all.q@@g",
	"qconf -dattr resource_quota limit slots=1 r/1", "qconf -purge queue * all.q@node1", "qconf -astnode /a/b=3 -sstnode /,a -dstree", "qconf -am x -dm root -ah y", "qconf -mq all.q -mconf",
	"qconf -au a,b c,d -du a c", "qconf -sobjl queue_instance slots 4*", "qconf -clearusage alice", "qconf -cq all.q", "qconf -shgrp_tree @allhosts -sds", "qfoo", "qconf -Aattr queue job.sh all.q",
}

// FuzzRun checks that no command line causes a panic, that errors have an exit status, and that the
// output of a change is a valid configuration.
func FuzzRun(f *testing.F) {
	for _, l := range lines {
		f.Add(l, "-N x\n#$ -t 1-3\nqname x\nhostlist node1\n", true)
		f.Add(l, "name x\n{\nname r\nlimit users * to slots=3\n}\n", false)
	}
	f.Fuzz(func(t *testing.T, text, file string, root bool) {
		w := newWorld(t)
		w.in.Files = map[string][]byte{"job.sh": []byte("#!/bin/sh\n")}
		w.line("alice", "qsub -t 1-8 job.sh")
		w.schedule()
		w.in.Files["job.sh"], w.in.Stdin = []byte(file), []byte(file)
		w.in.Edited = [][]byte{[]byte(file)}
		user := "alice"
		if root {
			user = "root"
		}
		words := strings.Split(text, " ")
		r := w.run(user, words[0], words[1:]...)
		if r.Stderr != "" && r.Exit == 0 && words[0] != "qconf" {
			t.Errorf("%q complains and succeeds: %s", text, r.Stderr)
		}
		for _, o := range r.Writes {
			if strings.Contains(o.Path, "..") || strings.HasPrefix(o.Path, "/") || strings.Count(o.Path, "/") > 1 {
				t.Errorf("%q writes %q", text, o.Path)
			}
		}
		w.schedule()
	})
}

// TestHelp checks that each command has a help text, which begins with the version.
func TestHelp(t *testing.T) {
	w := newWorld(t)
	for _, name := range Names() {
		r := w.line("alice", name+" -help")
		if text, ok := Help(name); !ok || text != r.Stdout {
			t.Errorf("the help of %s is %q, and -help prints %q", name, text, r.Stdout)
		}
		if first, _, _ := strings.Cut(r.Stdout, "\n"); first != version || r.Exit != 0 || r.Stderr != "" {
			t.Errorf("%s -help prints %q, %q, %d", name, first, r.Stderr, r.Exit)
		}
		for l := range strings.SplitSeq(r.Stdout, "\n") {
			if len(l) > 160 || strings.HasSuffix(l, " ") {
				t.Errorf("%s -help: %q", name, l)
			}
		}
	}
	if r := w.line("alice", "qfoo"); r.Exit != 1 || !strings.HasPrefix(r.Stderr, "qfoo: no such command") {
		t.Errorf("%+v", r)
	}
}

// TestNearest checks that the message about a mistyped option suggests the right one.
func TestNearest(t *testing.T) {
	w := newWorld(t)
	for text, want := range map[string]string{
		"qsub --sync y job.sh": "-sync", "qstat -exte": "-ext", "qdel -ff": "-f", "qhold -uu alice 1": "-u", "qmod -sjj 1": "-sj", "qmod --suspnd 1": "--suspend", "qhost -xm": "-xml",
		"qconf -msconff": "-msconf", "qselect -Qs d": "-qs", "qrstat -explan": "-explain", "qalter -hold_jd 2 1": "-hold_jid", "qrdel -uu x": "-u",
	} {
		if r := w.line("alice", text); !strings.HasSuffix(r.Stderr, "did you mean "+want+"?\n") || r.Exit == 0 {
			t.Errorf("%s: %d %q", text, r.Exit, r.Stderr)
		}
	}
}
