package replay

import (
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/simulate/script"
)

// master is the host on which root's commands run, and group is the group of all users, as in the
// recordings.
const (
	master = "master"
	group  = "sgeadmin"
)

// transfer is the time, in milliseconds, from the start of a task until it runs on a simulated
// host. Its run time begins then.
const transfer = 5000

// reportArrives is the delay, in milliseconds, until the master knows that a task on a real host
// has finished.
const reportArrives = 700

// Options describe the environment of the recording.
type Options struct {
	// Zone is the time zone of the recording: of dates in scripts and output, and of calendars. nil
	// means UTC.
	Zone *time.Location
	// Write is called with each file that is printed; its name is STEP/FILE.
	Write func(name string, text []byte) error
}

// Result is the result of a case.
type Result struct {
	Answers []script.Line // the lines of the script, with the simulation's answers
	// Differences describes answers that differ from the recording, and other deviations from it.
	Differences []string
}

// player plays a script.
type player struct {
	fsys    fs.FS
	in      *input
	lines   []script.Line
	options Options
	known   *evidence
	table   *timetable
	cell    *cell.Cell

	now     int64 // milliseconds since 1970
	lastRun int64 // the same; 0 for none yet
	unseen  int   // number of scheduling runs that must see the last command before a capture
	waited  bool  // the script has waited since the last command
	alone   bool  // each job runs alone in the cluster (script.Alone)
	step    int64 // time that a command of a capture takes, in milliseconds
	events  events
	result  Result
	// before holds the files whose names say that they were printed before the first line.
	before map[string][]byte
	// schedule1 is the text that the first scheduling run after enabled wrote to the file schedule.
	schedule1 []byte
	enabled   bool
}

// Run plays the case in a file system. The error joins all errors of the case; an error of Write
// ends the run at once.
func Run(fsys fs.FS, o Options) (*Result, error) {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	text, err := textfile.ReadFS(fsys, "jobs.txt", textfile.MaxScript)
	if err != nil {
		return nil, fmt.Errorf("cannot read the script: %w", err)
	}
	lines, err := script.Parse(string(text))
	if err != nil {
		return nil, inScript(err)
	}
	p := &player{fsys: fsys, lines: lines, options: o, known: readEvidence(fsys, o.Zone)}
	if p.in, err = readInput(fsys, lines); err != nil {
		return nil, err
	}
	if err := errors.Join(p.prepare(), p.check()); err != nil {
		return nil, err
	}
	for i := range p.lines {
		p.advance(p.table.at[i])
		if p.lines[i].Kind == script.Wait && p.now > p.table.at[i] {
			// The clock is late, but the time to wait is fixed.
			p.advance(p.now + p.lines[i].Duration())
		}
		p.step = p.patience(i)
		if err := p.play(i); err != nil {
			return nil, fmt.Errorf("jobs.txt:%d: %w", p.lines[i].Number, err)
		}
	}
	p.result.Answers = p.lines
	return &p.result, nil
}

// patience returns the time that each command of a capture may take, in milliseconds, so that the
// next line is on time.
func (p *player) patience(i int) int64 {
	if p.lines[i].Kind != script.Capture || i+1 == len(p.lines) {
		return jobTakes
	}
	n := max(len(p.known.files[p.lines[i].Capture]), len(inOrder))
	for _, j := range p.cell.Jobs() {
		if view.Pending(j) {
			n++
		}
	}
	return min(max((p.table.at[i+1]-p.now)/int64(n), 0), jobTakes)
}

// inScript adds the file name of the script to errors.
func inScript(err error) error {
	var all []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, inScript(e))
		}
		return errors.Join(all...)
	}
	if e, ok := errors.AsType[*script.Error](err); ok {
		return fmt.Errorf("jobs.txt:%d: %q: %s", e.Line, e.Text, e.Problem)
	}
	return err
}

// longest is the maximum duration of a script in milliseconds, since each of its scheduling runs is
// played.
const longest = 7 * 24 * hour * 1000

// prepare sets up the cell before the first line.
func (p *player) prepare() error {
	cluster, err := p.in.cluster()
	if err != nil {
		return inFolder(err)
	}
	interval := cluster.Scheduler().ScheduleInterval.Milliseconds()
	if interval <= 0 {
		interval = 1000 // until the script changes it; see off
	}
	before, held := holding(p.lines)
	p.table = makeTimetable(p.lines, p.known, held, interval, p.options.Zone)
	if n := len(p.table.at); n > 0 && p.table.at[n-1]-p.table.at[0]+p.lines[n-1].Duration() > longest {
		return fmt.Errorf("jobs.txt: the script lasts more than %d days", longest/(24*hour*1000))
	}
	p.now = p.table.at0() - 2*interval
	if p.known.stamp > 0 {
		p.now = max(min(p.now, p.known.stamp*1000), p.now-hour*1000)
	}
	p.cell = cell.New(p.seconds(), cluster, cell.Options{Zone: p.options.Zone, PEs: environments(cluster), Up: p.in.hosts})
	for _, host := range p.in.hosts {
		if len(p.in.load[host]) == 0 {
			continue // it never reports, so it is never the host with the latest change
		}
		if err := p.report(host); err != nil {
			return err
		}
	}
	if p.in.load[qconf.GlobalHost] != nil {
		if err := p.report(qconf.GlobalHost); err != nil {
			return err
		}
	}
	if err := p.setUsage(); err != nil {
		return err
	}
	p.printBefore()
	if before >= 0 {
		p.insert(before, "qmod -d '*'")
	} else {
		p.disableAsRecorded()
	}
	return nil
}

// printBefore saves the output for the cell before the first line.
func (p *player) printBefore() {
	p.before = map[string][]byte{}
	if len(p.known.files) == 0 {
		for _, base := range []string{"qstat-F", "qhost-F"} {
			p.before[base+"-before.txt"] = printed[base+".txt"](p, view.New(p.cell, p.seconds()), "")
		}
	}
	for step, names := range p.known.files {
		for _, name := range names {
			base, ok := strings.CutSuffix(name, "-before.txt")
			if f := printed[base+".txt"]; ok && f != nil {
				p.before[name] = f(p, view.New(p.cell, p.seconds()), step)
			}
		}
	}
}

// insert runs a command of root before a line. The recording lacks this command.
func (p *player) insert(before int, command string) {
	p.events.add(event{at: p.table.at[before], kind: typed, command: command})
}

// disableAsRecorded disables the queue instances that were disabled at the first capture, if the
// script contains no command for it.
func (p *player) disableAsRecorded() {
	for i := range p.lines {
		l := &p.lines[i]
		if l.Kind == script.Command && strings.HasPrefix(l.Command, "qmod ") {
			return
		}
		if l.Kind == script.Capture {
			for _, name := range readDisabled(p.fsys, l.Capture) {
				p.events.add(event{at: p.now, kind: typed, command: "qmod -d " + name})
			}
			return
		}
	}
}

// at0 returns the time of the first line.
func (t *timetable) at0() int64 {
	if len(t.at) == 0 {
		return epoch * 1000
	}
	return t.at[0]
}

func (p *player) seconds() int64 { return p.now / 1000 }

// report makes a host report its load values.
func (p *player) report(host string) error {
	a, err := p.cell.HostReport(p.seconds(), host, maps.Clone(p.in.load[host]))
	if err != nil {
		return err
	}
	p.follow(a.Actions)
	return nil
}

func (p *player) setUsage() error {
	base := p.known.stamp
	if base == 0 {
		base = p.seconds()
	}
	for _, u := range p.in.usage {
		usage := tickets.Usage{Decayed: u.amounts, LongTerm: u.amounts}
		stamp := int64(0)
		if u.age > 0 {
			stamp = base - u.age
		}
		var err error
		if u.user == "" {
			err = p.cell.SetProjectUsage(u.project, usage, stamp)
		} else {
			err = p.cell.SetUserUsage(u.user, u.project, usage, stamp)
		}
		if err != nil {
			return fmt.Errorf("input/initial_usage: %w", err)
		}
	}
	return nil
}

// play performs a line, at its time.
func (p *player) play(i int) error {
	l := &p.lines[i]
	switch l.Kind {
	case script.Command:
		recorded := l.Answer
		lines, err := p.command(l)
		if err != nil {
			return err
		}
		p.answer(l, recorded, lines)
		p.unseen, p.waited, p.enabled = enough, false, p.enabled || isEnable(l)
		if p.alone && isSubmission(l) {
			return p.playAlone(l)
		}
	case script.LoadChange:
		if err := p.in.setLoad(l.Load.Host, l.Load.Attribute, l.Load.Value); err != nil {
			return err
		}
		timed := i > 0 && p.lines[i-1].Kind == script.Clock
		if !timed && i+1 < len(p.lines) && p.lines[i+1].Kind == script.Wait {
			p.events.add(event{at: p.now + p.table.loadArrives(p.lines[i+1].Wait), kind: reported, command: l.Load.Host})
			break
		}
		p.unseen, p.waited = enough, false
		return p.report(l.Load.Host)
	case script.Capture:
		return p.capture(l.Capture)
	case script.Wait:
		p.waited = true
	case script.Alone:
		p.alone = true
	}
	return nil
}

// answer records the simulation's answer, and its differences from the recorded one.
func (p *player) answer(l *script.Line, recorded, lines []string) {
	l.Answer = lines
	if len(recorded) == 0 || strings.Join(recorded, "\n") == strings.Join(lines, "\n") {
		return
	}
	p.result.Differences = append(p.result.Differences, fmt.Sprintf("jobs.txt:%d: %s: the answer was\n\t%s\nand is\n\t%s",
		l.Number, l.Command, strings.Join(recorded, "\n\t"), strings.Join(lines, "\n\t")))
}

// playAlone captures the result of a job that runs alone in the cluster, and deletes the job.
func (p *player) playAlone(l *script.Line) error {
	p.settle(true)
	name := jobName(l.Command)
	if name == "" {
		return errors.New("a job that runs alone needs a name (-N), as that of the step")
	}
	if err := p.print(name); err != nil {
		return err
	}
	a := p.cell.Delete(p.seconds(), root, cell.DeleteRequest{Users: []string{"*"}, Force: true})
	p.follow(a.Actions)
	// Later lines move to later times.
	for i := range p.table.at {
		p.table.at[i] = max(p.table.at[i], p.now)
	}
	return nil
}

// enough is the number of scheduling runs before a capture without a wait: they have seen the last
// command, and the changes of the first of them.
const enough = 2

// capture prints the state. Before that, a scheduling run has seen the last command; several have
// if the script has not waited.
func (p *player) capture(step string) error {
	_, known := p.known.captured[step]
	p.settle(known || p.waited)
	return p.print(step)
}

// settle waits until enough scheduling runs have seen the last command; one run is sufficient if the
// script has waited.
func (p *player) settle(waited bool) {
	for !p.off() && p.unseen > 0 && (!waited || p.unseen >= enough) {
		p.advance(p.table.nextRun(p.now, p.lastRun))
	}
}

// advance advances the clock to a time in milliseconds, and applies the events until then.
func (p *player) advance(to int64) {
	for {
		run := p.table.nextRun(max(p.now, p.lastRun), p.lastRun)
		if p.off() {
			run = always.to
		}
		next := min(run, p.events.next())
		if next > to {
			break
		}
		p.now = max(p.now, next)
		if run <= next {
			p.schedule()
			continue
		}
		p.happen(heap.Pop(&p.events).(event))
	}
	p.now = max(p.now, to)
}

// off reports whether there are no scheduling runs at all (sched_conf(5), schedule_interval).
func (p *player) off() bool { return p.cell.Cluster().Scheduler().ScheduleInterval == 0 }

// schedule performs a scheduling run.
func (p *player) schedule() []cell.Immediate {
	p.lastRun, p.unseen = p.now, max(p.unseen-1, 0)
	r := p.cell.Schedule(p.seconds())
	for _, err := range r.Problems {
		p.result.Differences = append(p.result.Differences, err.Error())
	}
	p.follow(r.Actions)
	if p.enabled && p.cell.Cluster().Scheduler().Params.Monitor {
		p.enabled, p.schedule1 = false, qstat.AppendSchedule(nil, view.New(p.cell, p.seconds()).Schedule())
	}
	return r.Immediate
}

// follow performs the actions for the execution hosts.
func (p *player) follow(actions []cell.Action) {
	for _, a := range actions {
		t := a.Task
		e := event{at: p.now, job: t.Job.ID(), task: t.Number, attempt: t.Restarts}
		switch a.Kind {
		case cell.StartTask:
			e.kind = confirmed
			e.at += transfer
			p.events.add(e)
			args := t.Job.Request().Args
			e.kind, e.used = ended, usedBy(args)
			if at, ok := p.known.ended[int(e.job)]; ok {
				e.at = max(p.now, at*1000+reportArrives)
				p.events.add(e)
			} else if lasts := runTime(args); lasts < math.MaxInt32 {
				e.at += lasts * 1000
				p.events.add(e)
			}
		case cell.KillTask:
			e.kind = ended
			p.events.add(e)
		}
	}
}

// runTime returns the run time of a job in seconds: its first argument.
func runTime(args []string) int64 {
	if len(args) > 0 {
		if n, err := strconv.ParseInt(args[0], 10, 64); err == nil && n >= 0 {
			return min(n, math.MaxInt32)
		}
	}
	return math.MaxInt32
}

// usedBy returns the usage of a job at its end. The arguments after the first one give it as
// cpu=SECONDS.
func usedBy(args []string) tickets.Amounts {
	var used tickets.Amounts
	for i, a := range args {
		if text, ok := strings.CutPrefix(a, "cpu="); ok && i > 0 {
			if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 && !math.IsInf(v, 0) {
				used[tickets.CPU] = v
			}
		}
	}
	return used
}

// happen applies an event that is not a line of the script.
func (p *player) happen(e event) {
	switch e.kind {
	case typed:
		if _, err := p.command(&script.Line{User: "root", Command: e.command}); err == nil {
			p.unseen = enough
		}
	case reported:
		// The host exists: it has reported before.
		_ = p.report(e.command)
	case confirmed:
		// A task that was removed needs no confirmation.
		_ = p.cell.TaskStarted(p.seconds(), e.job, e.task, e.attempt)
	case ended:
		if a, err := p.cell.TaskEnded(p.seconds(), e.job, e.task, e.attempt, cell.End{Used: e.used}); err == nil {
			p.follow(a.Actions)
		}
	}
}

// event is an event at a given time.
type event struct {
	at      int64 // milliseconds since 1970
	order   int
	kind    eventKind
	job     uint32
	task    uint32
	attempt int
	command string // command to run, or the host that reports
	used    tickets.Amounts
}

type eventKind uint8

const (
	ended eventKind = iota
	confirmed
	typed
	reported
)

// events is a heap with the next event at the top.
type events struct {
	list []event
	n    int
}

func (e *events) add(x event) {
	e.n++
	x.order = e.n
	heap.Push(e, x)
}

func (e *events) next() int64 {
	if len(e.list) == 0 {
		return math.MaxInt64
	}
	return e.list[0].at
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }

// Push and Pop are for package heap.
func (e *events) Push(x any) { e.list = append(e.list, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	x := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return x
}
