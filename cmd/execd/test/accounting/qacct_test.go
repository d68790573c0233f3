package accounting

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/qacct"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/test/gridengine"
)

// commandLines are the arguments with which qacct is called, separated by blanks.
var commandLines = []string{
	"", "-j", "-j 12", "-j 14", "-j 15", "-j 15 -m", "-j 8 -t 2", "-j 8 -t 1-4:1", "-j 8 -t 7", "-j pe.sh", "-j *.sh", "-j [rw].sh",
	"-j 99", "-j nosuch", "-j nosuch -t 3", "-j 12abc", "-j 0", "-j 9 -P p1", "-j 9 -P p2", "-j -o bob", "-j 14 -E -d 3",
	"-o", "-o alice", "-o nobody", "-u", "-g", "-g alice", "-g 2001", "-g 5", "-h", "-h CELLHOST", "-h n1", "-h nowhere",
	"-q", "-q all.q", "-q all.q@cellhost", "-q *@n*", "-q a*.q", "-q nosuch", "-q all.q -q b.q", "-q all.q@@here", "-q *@@others", "-q @here",
	"-P", "-P p1", "-P NONE", "-D", "-D defaultdepartment", "-D research", "-A", "-A acc+ount", "-pe", "-pe smp", "-pe NONE",
	"-slots", "-slots 2", "-slots 2 -pe", "-slots 0", "-slots x", "-ar", "-ar 1", "-ar 1 -slots 1", "-ar 1 -A", "-ar x",
	"-o -g -h -q -P -D -pe -slots -ar -A", "-o alice -q all.q -slots", "-m", "-m -pe smp", "-l arch=lx*", "-l lic=1 -q", "-l h=n1 -h", "-l nosuch=1",
	"-d 1", "-d 400 -o", "-d 0", "-d x", "-b 202001010000", "-b 202001010000.30 -e 203001010000 -E -o", "-e 202001020000 -h", "-e 202001020000 -d 1 -h -q",
	"-b 202001010000 -d 1 -h -q", "-b 1", "-e 202613010000", "-e 202612320000", "-b 202612312400", "-b 202612312360", "-b 202612312359.60", "-b 202612312359.3",
	"-b", "-e", "-d", "-f", "-l", "-t", "-t 2", "-j 8 -t x", "-j 8 -t 1-", "word", "-help", "-f /nowhere/accounting",
}

// made returns records that do not come from the jobs of the cell; all of their times are fixed.
func made() []byte {
	begin := time.Date(2020, 1, 1, 12, 0, 0, 0, time.Local)
	var text []byte
	for i := range 60 {
		r := accounting.Record{
			Queue: []string{"all.q", "b.q", "a.very.long.queue.name.q"}[i%3], Host: []string{"n1", "n2.example.org", "cellhost"}[i/3%3],
			Group: []string{"staff", "students"}[i%2], Owner: []string{"bob", "carol", "a.user.with.a.long.name"}[i%7%3],
			JobName: fmt.Sprintf("job%d", i%11), Job: 1000 + i/2, Task: i % 5, Account: []string{"sge", "paid"}[i%13%2],
			Submitted: begin, Start: begin.Add(time.Duration(i) * time.Hour), End: begin.Add(time.Duration(2*i) * time.Hour),
			Project: []string{"", "p1", "p3"}[i%8%3], Department: []string{"research", "teaching"}[i%4/2], PE: []string{"", "mpi"}[i%6/3],
			Slots: 1 << (i % 5), Category: "NONE", Reservation: i % 3, PETask: []string{"", "1.n2"}[i/6%2],
		}
		u := &r.Usage
		u.Wallclock = r.End.Sub(r.Start).Seconds()
		u.UserTime, u.SystemTime, u.CPU = float64(i)*1.001, float64(i)*0.25, float64(i*i)*3.14
		u.Mem, u.IO, u.IOWait = float64(i)/7, float64(i*i)/100000, float64(i)/3
		u.MaxRSS, u.MaxVmem = int64(i)<<(i/2+10), int64(i)<<(i/2)
		r.ExitStatus = i * 4
		switch i % 10 {
		case 9:
			r.Failed = 100
		case 8:
			r.Start, r.End, r.Failed = time.Time{}, time.Time{}, 26
		}
		text = accounting.AppendClassic(text, &r)
	}
	return text
}

// run executes all command lines in the cell and returns their results.
func run(t *testing.T, cell *gridengine.Cell, file string) (results []result) {
	t.Helper()
	const script = `cd /tmp; i=0; for line; do i=$((i+1)); set -f; qacct -f %s $line >$i.out 2>$i.err; echo $? >$i.status; done`
	if _, err := cell.Root(append([]string{"sh", "-c", fmt.Sprintf(script, file), "sh"}, commandLines...)...); err != nil {
		t.Fatal(err)
	}
	read := func(i int, what string) string {
		text, err := os.ReadFile(cell.Path(fmt.Sprintf("/tmp/%d.%s", i+1, what)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for i := range commandLines {
		results = append(results, result{read(i, "status"), read(i, "out"), read(i, "err")})
	}
	return results
}

type result struct{ Status, Stdout, Stderr string }

// differing are the command lines whose output differs from the original's, with the reason.
var differing = map[string]string{
	"-l nosuch=1":  "the words of qselect, which is asked here, are others",
	"-l lic=1 -q":  "the words of qselect",
	"-l h=n1 -h":   "the words of qselect",
	"-l arch=lx*":  "it prints an empty line, and how many jobs ran in queues that are gone",
	"-q *@@others": "the words of qselect",
}

var ignoring = regexp.MustCompile(`error: (ignoring invalid entry in line \d+|Invalid sge_strtok_r call, last is NULL)\n`)

// compare compares the output of our qacct with that of the original for the same file.
func compare(t *testing.T, cell *gridengine.Cell, records string) {
	t.Helper()
	// The original reads a category with a colon as two fields.
	records = regexp.MustCompile(`(?m)^.*calendar=a:b.*\n`).ReplaceAllString(records, "")
	if err := cell.Configure("-Ahgrp", "@here", "group_name @here\nhostlist cellhost\n"); err != nil {
		t.Fatal(err)
	}
	if err := cell.AddFile("/tmp/accounting", records+string(made())+"garbled:line\n", 0o644); err != nil {
		t.Fatal(err)
	}
	theirs := run(t, cell, "/tmp/accounting")
	same := 0
	for i, line := range commandLines {
		var out, errs bytes.Buffer
		c := qacct.Command{
			Args: append([]string{"-f", cell.Path("/tmp/accounting")}, strings.Fields(line)...), Stdout: &out, Stderr: &errs, Now: time.Now(),
			Group: groupIn(cell), Select: selectIn(cell),
		}
		status, err := c.Run()
		if err != nil {
			t.Fatal(err)
		}
		own := "\n [-json]                           everything that is known, as JSON\n"
		ours := result{fmt.Sprintln(status), strings.Replace(out.String(), own, "", 1), strings.Replace(errs.String(), own, "", 1)}
		// The original does not count comments, does not read the whole line with some options,
		// and prints an error of its own code with host groups.
		theirs[i].Stderr = ignoring.ReplaceAllString(theirs[i].Stderr, "")
		ours.Stderr = ignoring.ReplaceAllString(ours.Stderr, "")
		diff := cmp.Diff(theirs[i], ours)
		if differing[line] == "" && diff != "" {
			t.Errorf("qacct %s: -theirs +ours\n%s", line, diff)
		}
		if differing[line] != "" && diff == "" {
			t.Errorf("qacct %s is no longer answered otherwise", line)
		}
		if diff == "" {
			same++
		}
	}
	t.Attr("qacct-command-lines", fmt.Sprint(same))
}

// groupIn reads the group file of the cell.
func groupIn(cell *gridengine.Cell) func(uint32) string {
	return userdb.Database{Group: cell.Proc(1) + "/root/etc/group"}.GroupName
}

func selectIn(cell *gridengine.Cell) func(...string) ([]string, error) {
	return func(options ...string) ([]string, error) {
		text, err := cell.Root(append([]string{"qselect"}, options...)...)
		if err != nil {
			return nil, errors.New("qselect has failed")
		}
		return strings.Fields(text), nil
	}
}
