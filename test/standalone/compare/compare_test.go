package compare

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// patience is the timeout of a wait.
const patience = 3 * time.Minute

// Names in the cell.
const (
	commandDir = "/home/cell/commands"
	spool      = "/home/cell/standalone"
	socket     = "/home/cell/run/agent.sock"
	confDir    = "/home/cell/conf"
	mailer     = "/home/cell/mailer"
)

// side is one of the two systems.
type side struct {
	name string
	env  string // precedes a command
}

var sides = []side{
	{"Grid Engine", "PATH=/usr/bin:/bin"},
	{"execd", "EXECD_SOCKET=" + socket + " PATH=" + commandDir + ":/usr/bin:/bin"},
}

// TestCompare types what is in testdata. A line of a file is
//
//	USER COMMAND        typed in a shell in the home of the user
//	! USER COMMAND      the same, where a difference is known: the comment before it says which
//	+ USER COMMAND      the same, where ours says more, on lines of its own
//	~ USER COMMAND      the same, where what is said on standard error is other, and nothing else
//	until PATTERN       until qstat -u '*' prints something that matches
//	drain               until no job is there
//	renumber            numbers of jobs do not count from here on
//	# ...               a comment
func TestCompare(t *testing.T) { compare(t, "testdata/*.txt") }

// TestSoakCompare types more of the same.
func TestSoakCompare(t *testing.T) {
	testenv.Soak(t)
	compare(t, "testdata/soak/*.txt")
}

func compare(t *testing.T, pattern string) {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	cell := gridengine.Start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01", "mailer": mailer}})
	ready(t, cell)
	counts, again := map[mark]int{}, false
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := player{t: t, cell: cell, file: file, counts: counts, found: map[int]mark{}, again: &again}
			for i, text := range strings.Split(string(text), "\n") {
				p.play(i+1, text)
			}
			p.flush()
			if p.lost != nil {
				t.Skipf("Grid Engine did not do it on this busy machine: %v", p.lost)
			}
			if *update {
				if err := os.WriteFile(file, []byte(p.marked(string(text))), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	lines := counts[same] + counts[more] + counts[worded] + counts[differs]
	t.Attr("lines_compared", fmt.Sprint(lines))
	t.Attr("known_differences", fmt.Sprint(counts[differs]))
	fmt.Printf("%s: %d lines, %d where ours says more, %d where it has other words, %d known differences\n", t.Name(), lines, counts[more], counts[worded], counts[differs])
}

// mark is the expected difference of a line.
type mark string

// The marks.
const (
	same    mark = ""
	more    mark = "+"
	worded  mark = "~"
	differs mark = "!"
)

// line is a command line.
type line struct {
	number        int
	mark          mark
	user, command string
}

// player runs a file. It collects lines, since entering a cell takes longer than running a line.
type player struct {
	t        *testing.T
	cell     *gridengine.Cell
	file     string
	gathered []line
	renumber bool
	again    *bool // of all files: the original has used other numbers, because it was asked again
	lost     error // why nothing is compared any more
	counts   map[mark]int
	found    map[int]mark // by line number
}

var update = flag.Bool("update", false, "mark the lines as they are found; what differs is to be explained by hand")

// marked returns a file with the marks that were found.
func (p *player) marked(text string) string {
	lines := strings.Split(text, "\n")
	for number, m := range p.found {
		l := strings.TrimSpace(strings.TrimLeft(lines[number-1], "+!~ "))
		if m != same {
			l = string(m) + " " + l
		}
		lines[number-1] = l
	}
	return strings.Join(lines, "\n")
}

// changesFiles matches lines that create or remove files.
var changesFiles = regexp.MustCompile(`> *[^ &>]|\brm |\bsed -i`)

func withoutNull(command string) string { return strings.ReplaceAll(command, ">/dev/null", "") }

// mostLines is the maximum number of lines that run at once.
const mostLines = 20

func (p *player) play(number int, text string) {
	p.t.Helper()
	words := strings.Fields(text)
	if len(words) == 0 || words[0] == "#" {
		return
	}
	switch words[0] {
	case "drain":
		p.flush()
		p.wait(regexp.MustCompile(`^$`))
	case "until":
		p.flush()
		p.wait(regexp.MustCompile(strings.TrimSpace(strings.TrimPrefix(text, "until"))))
	case "renumber":
		p.flush()
		p.renumber = true
	default:
		l := line{number: number}
		if m := mark(words[0]); m == more || m == differs || m == worded {
			l.mark = mark(words[0])
			text = strings.TrimSpace(text[1:])
		}
		l.user, l.command, _ = strings.Cut(text, " ")
		// Both sides must find the same files, even if a line changes them.
		alone := changesFiles.MatchString(withoutNull(l.command))
		if alone {
			p.flush()
		}
		if p.gathered = append(p.gathered, l); alone || len(p.gathered) == mostLines {
			p.flush()
		}
	}
}

// flush runs the collected lines: on both sides at the same time, unless files change.
func (p *player) flush() {
	p.t.Helper()
	lines := p.gathered
	p.gathered = nil
	if len(lines) == 0 {
		return
	}
	var printed [2][]string
	var errs [2]error
	var both sync.WaitGroup
	for i, s := range sides {
		both.Go(func() { printed[i], errs[i] = typed(p.cell, s, lines) })
		if changesFiles.MatchString(withoutNull(lines[0].command)) {
			both.Wait()
		}
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		p.t.Fatal(err)
	}
	if p.lost != nil {
		return
	}
	original, ours := printed[0], printed[1]
	for i, l := range lines {
		where := fmt.Sprintf("%s:%d: %s", p.file, l.number, l.command)
		if overloaded(original[i]) && !overloaded(ours[i]) {
			again, err := p.askAgain(l)
			if err != nil {
				p.t.Run(fmt.Sprintf("line %d", l.number), func(t *testing.T) {
					t.Skipf("%s: Grid Engine did not run it on this busy machine: %v", where, err)
				})
				continue
			}
			original[i] = again
		}
		p.counts[l.mark]++
		a, b := normal(original[i]), normal(ours[i])
		if p.renumber || *p.again {
			a, b = withoutNumbers(a), withoutNumbers(b)
		}
		diff := cmp.Diff(a, b)
		switch {
		case diff == "":
			p.found[l.number] = same
		case saysMore(a, b):
			p.found[l.number] = more
		case onlyWorded(a, b):
			p.found[l.number] = worded
		default:
			p.found[l.number] = differs
		}
		switch {
		case *update:
		case l.mark != same && diff == "":
			p.t.Errorf("%s: there is no difference any more", where)
		case l.mark == same && diff != "", l.mark == more && !saysMore(a, b), l.mark == worded && !onlyWorded(a, b):
			p.t.Errorf("%s: Grid Engine (-) and execd (+):\n%.2000s", where, diff)
		}
	}
}

// tooBusy matches the output of a command on a machine that was too slow for it. Either the next scheduling
// run found no slot for an immediate job, because slots become free some time after the ends of their jobs,
// or the original's qrsh_starter began when its job had already been removed, or timeout(1) ended the command.
var tooBusy = regexp.MustCompile(`(?m)could not be scheduled, try again later|^\[stderr\] qrsh_starter: cannot write pid file|^\[exit status (124|137)\]`)

// overloaded reports whether a command failed because the machine was too slow.
func overloaded(printed string) bool { return tooBusy.MatchString(printed) }

// askAgain runs a line again with the original until it gets its turn. The error says that the
// machine is too busy.
func (p *player) askAgain(l line) (string, error) {
	*p.again = true // each attempt uses a number
	printed := ""
	err := p.cell.Poll(patience, "the original runs an interactive job", func() (bool, error) {
		out, err := typed(p.cell, sides[0], []line{l})
		if err != nil {
			return false, err
		}
		printed = out[0]
		return !overloaded(printed), nil
	})
	return printed, err
}

// saysMore reports whether ours has the same exit status and contains all lines of the original, in
// their order.
func saysMore(original, ours string) bool {
	rest := strings.Split(ours, "\n")
	for want := range strings.SplitSeq(original, "\n") {
		i := slices.Index(rest, want)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// said matches a line of standard error.
var said = regexp.MustCompile(`(?m)^\[stderr\] .*\n`)

// onlyWorded reports whether the results differ only on standard error.
func onlyWorded(original, ours string) bool {
	return said.ReplaceAllString(original, "") == said.ReplaceAllString(ours, "")
}

// ready prepares both sides with the same configuration except for gid_range: the groups of a job
// identify the processes to kill.
func ready(t *testing.T, cell *gridengine.Cell) {
	t.Helper()
	programs := t.TempDir()
	if err := testenv.Build(programs, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"execd", "sge_shepherd-go"} {
		if err := cell.AddProgram(name, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	must := func(script string) {
		t.Helper()
		if out, err := cell.Root("sh", "-c", script); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := cell.AddQueues(gridengine.Queue{Name: "all.q", Attributes: map[string]string{
		"slots": "4", "load_thresholds": "NONE", "shell": "/bin/sh", "hostlist": cell.Host,
	}}); err != nil {
		t.Fatal(err)
	}
	must(`qconf -sss >/dev/null; qconf -ssconf | sed 's/^schedule_interval.*/schedule_interval 0:0:1/; s/^flush_submit_sec.*/flush_submit_sec 1/; s/^flush_finish_sec.*/flush_finish_sec 1/; s/^weight_waiting_time.*/weight_waiting_time 0/' >/tmp/sched && qconf -Msconf /tmp/sched`)
	// A mail is a file with the name of its subject and its addresses, below a directory of the side:
	// the original runs the mailer as root, and execd as another user.
	if err := cell.AddFile(mailer, `#!/bin/sh
if [ "$(id -u)" = 0 ]; then box=/tmp/mails.G; else box=/tmp/mails.e; fi
subject=$2; shift 2
f=$(mktemp $box/.new.XXXXXX) && cat >"$f" && chmod 644 "$f" && mv "$f" "$box/$subject to $*"
`, 0o755); err != nil {
		t.Fatal(err)
	}
	must("mkdir -m 1777 /tmp/mails.G /tmp/mails.e")
	must(`mkdir -p ` + commandDir + ` /home/cell/run ` + confDir + `
cd ` + commandDir + ` && for c in qsub qstat qdel qalter qmod qhold qrls qrsh qlogin qconf qhost qquota qselect qresub qrsub qrstat qrdel sge_share_mon qacct; do ln -sf ` + gridengine.BinDir + `/execd $c; done
cd ` + confDir + ` && mkdir -p queues hosts hostgroups pes conf usersets calendars
for q in $(qconf -sql); do qconf -sq $q > queues/$q; done
for h in $(qconf -sel); do qconf -se $h | grep -v '^processors\|^load_values' > hosts/$h; done
for g in $(qconf -shgrpl); do qconf -shgrp $g > hostgroups/$g; done
for p in $(qconf -spl); do qconf -sp $p > pes/$p; done
for u in $(qconf -sul); do qconf -su $u > usersets/$u; done
qconf -sconf | sed 's/^gid_range .*/gid_range 60000-61000/' > conf/global; qconf -ssconf > sched_conf; qconf -sc > complexes
setsid ` + gridengine.BinDir + `/execd standalone --conf ` + confDir + ` --spool ` + spool + ` --socket ` + socket + ` --host ` + cell.Host + ` </dev/null >` + spool + `.log 2>&1 &`)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := cell.Root("tail", "-n", "30", spool+".log")
			t.Log("the log of execd standalone:\n" + out)
		}
	})
	if err := cell.Poll(patience, "execd standalone has loads", func() (bool, error) {
		out, err := cell.Root("sh", "-c", sides[1].env+" qstat -f")
		return err == nil && !strings.Contains(out, "-NA-") && strings.Contains(out, "all.q"), nil
	}); err != nil {
		t.Fatal(err)
	}
}

// separator separates the outputs of commands.
const separator = "=== next command ===\n"

// typed returns the output and exit status of commands.
func typed(cell *gridengine.Cell, s side, lines []line) (printed []string, err error) {
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n].user == lines[0].user {
			n++
		}
		some, err := typedBy(cell, s, lines[:n])
		if err != nil {
			return nil, err
		}
		printed, lines = append(printed, some...), lines[n:]
	}
	return printed, nil
}

// typedBy does what typed does, for one user.
func typedBy(cell *gridengine.Cell, s side, lines []line) ([]string, error) {
	user := lines[0].user
	stderr := "/tmp/stderr." + s.name[:1] + "." + user
	var script strings.Builder
	script.WriteString(s.env + "; export PATH EXECD_SOCKET\n")
	for _, l := range lines {
		script.WriteString("( " + l.command + "\n) 2>" + stderr + "; echo \"[exit status $?]\"; sed 's/^/[stderr] /' " + stderr + "; printf '" + strings.TrimSuffix(separator, "\n") + "\\n'\n")
	}
	run := func(args ...string) (string, error) { return cell.User(user, args...) }
	if user == "root" {
		run = cell.Root
	}
	out, err := run("sh", "-c", script.String())
	printed := strings.Split(strings.TrimSuffix(out, separator), separator)
	if err != nil || len(printed) != len(lines) {
		return nil, fmt.Errorf("%s: %d lines from %q on: %d were typed: %w", s.name, len(lines), lines[0].command, len(printed), err)
	}
	return printed, nil
}

// Parts that differ from one run to another.
var replacements = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d\d/\d\d/\d{4} \d\d:\d\d:\d\d`), "<date and time>"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}`), "<weekday and time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`), "<xml time>"},
	{regexp.MustCompile(`(\d+/\d+/\d+ +)\d+\.\d\d +`), "$1<load> "}, // in a column, and filled with blanks on the right
	{regexp.MustCompile(`(all\.q +)[ \d]\d\.\d\d( +\d+ +\d+ +\d+)`), "$1<load>$2"},
	{regexp.MustCompile(`(<(?:load_avg|load|io_usage)>)[^<]*`), "$1<load>"},
	{regexp.MustCompile(commandDir + ":"), ""}, // in PATH
	// Our lists of options are our own, and so is the option that was probably meant.
	{regexp.MustCompile(`(?m)^((?:\[stderr\] )?)(?:SGE 8\.1\.9\n(?:\[stderr\] )?)?usage: .*\n(?:(?:\[stderr\] )?(?: .*|[a-z_0-9/]+  .*|complex_attributes.*)?\n)*`), "$1<usage>\n"},
	{regexp.MustCompile(`(?m)^(?:\[stderr\] )?did you mean .*\n`), ""},
	// The process that has recorded a failure: one of the user, or the shepherd.
	{regexp.MustCompile(`\[(20\d\d):\d+\]: `), "[$1:<process>]: "},
	{regexp.MustCompile(`\[\d{1,3}:\d+\]: `), "[<daemon>:<process>]: "},
	{regexp.MustCompile(`(uid=20\d\d gid=20\d\d (?:\d{4} )+)\d{5}\b`), "$1<group of the job>"},
	{regexp.MustCompile(`/var/spool/gridengine/execd/[^/ ]+/|` + spool + `/`), "<spool>/"},
	{regexp.MustCompile(`(job_scripts/)\d+`), "$1<number>"},
	{regexp.MustCompile(`0:00:00:00 \d\.\d{5} \d\.\d{5} |NA {9}NA {6}NA {6}`), "<usage> "},
}

func normal(text string) string {
	for _, r := range replacements {
		text = r.what.ReplaceAllString(text, r.by)
	}
	return text
}

// numbers match the numbers of jobs.
var (
	numbers      = regexp.MustCompile(`((?:[Jj]ob|job-array|job-array task|job_number:|"job"|blocking jobs:|exited jobs:  |jid_predecessor_list:) +"?)\d+`)
	numberColumn = regexp.MustCompile(`(?m)^( *)\d+([ .]|$)`)
)

func withoutNumbers(text string) string {
	return numberColumn.ReplaceAllString(numbers.ReplaceAllString(text, "${1}<number>"), "<number>${2}")
}

// wait waits until both sides show the expected output. If only the original does not, because the machine is too busy for it, the
// rest of the file is played without being compared, so that the next file finds what it expects, and the file is skipped.
func (p *player) wait(pattern *regexp.Regexp) {
	p.t.Helper()
	for i, s := range sides {
		if i == 0 && p.lost != nil {
			continue
		}
		last := ""
		err := p.cell.Poll(patience, s.name+" shows "+pattern.String(), func() (bool, error) {
			out, err := p.cell.Root("sh", "-c", s.env+"; export PATH EXECD_SOCKET; qstat -u '*'")
			last = out
			return err == nil && pattern.MatchString(out), nil
		})
		switch {
		case err != nil && i == 0:
			p.lost = errors.Join(err, errors.New(last))
		case err != nil:
			p.t.Fatal(errors.Join(err, errors.New(last)))
		}
	}
}
