package differential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// A driver runs the cases in one cell and collects their visible results.
type driver struct {
	cell     *gridengine.Cell
	original bool // the cell has the original shepherd
	agent    bool // the cell has the agent in place of sge_execd
	cases    []jobCase
	jobs     []int         // job numbers, by case
	seen     []observation // collected results of the jobs, by case

	took []time.Duration // by phase

	statesMu sync.Mutex
	states   map[int]string // from qstat
	statesAt time.Time

	mu    sync.Mutex
	byJob map[int]string            // slug of a job's case
	notes map[int]map[string]string // results of act functions, by job
}

// Timeouts. They count from the last progress of the cell (driver.patient): on a busy machine the last of
// two hundred jobs starts minutes after the first.
const (
	phaseDeadline = 2 * time.Minute
	stepDeadline  = time.Minute
	most          = 15 * time.Minute // for each condition, in a cell whose jobs never end
)

// newDriver starts a cell with a shepherd, the original if it is "", or with the agent in a
// directory.
func newDriver(t testing.TB, shepherd, agent string, cases []jobCase) *driver {
	conf := phaseMain.conf()
	conf["loglevel"] = "log_info" // logs configuration changes and signals
	return &driver{
		original: shepherd == "" && agent == "", agent: agent != "",
		cases: cases, jobs: make([]int, len(cases)), seen: make([]observation, len(cases)), byJob: map[int]string{}, notes: map[int]map[string]string{},
		cell: gridengine.Start(t, gridengine.Config{
			Shepherd: shepherd, Agent: agent, Conf: conf, Installation: os.Getenv(testenv.OCSEnv),
			Env: []string{"FROM_EXECD=yes", "LD_FROM_EXECD=1", "OLDPWD=/x", "TZ=UTC"},
		}),
	}
}

// furnish fills the cell with queues, programs and files.
func (d *driver) furnish(probePath string) error {
	if err := d.cell.AddProgram("probe", probePath); err != nil {
		return err
	}
	for name, text := range tools {
		mode := os.FileMode(0o755)
		if name == "no-exec" {
			mode = 0o644
		}
		if err := d.cell.AddFile(gridengine.BinDir+"/"+name, expand(text, ""), mode); err != nil {
			return err
		}
	}
	for _, dir := range []string{flagDir, seenDir} {
		if err := errors.Join(os.Mkdir(d.cell.Path(dir), 0o755), os.Chmod(d.cell.Path(dir), 0o1777|os.ModeSticky)); err != nil {
			return err
		}
	}
	var pes []string
	for name, procs := range parallelEnvironments {
		if ocs() { // it lacks this variable
			procs[0] = strings.ReplaceAll(procs[0], " $ja_task_id", "")
		}
		if err := d.cell.AddPE(name, attrs("start_proc_args", expand(procs[0], ""), "stop_proc_args", expand(procs[1], ""))); err != nil {
			return err
		}
		pes = append(pes, name)
	}
	for name, ckpt := range checkpoints {
		expanded := map[string]string{}
		for key, value := range ckpt {
			expanded[key] = expand(value, "")
		}
		if err := d.cell.AddCkpt(name, expanded); err != nil {
			return err
		}
	}
	slices.Sort(pes)
	queues := []gridengine.Queue{{Name: "all.q", Attributes: attrs("pe_list", "smp")}}
	for _, c := range d.cases {
		if c.queue != nil {
			queues = append(queues, gridengine.Queue{Name: c.slug + ".q", Attributes: c.queue})
		}
		if err := d.outFiles(c); err != nil {
			return err
		}
	}
	return d.cell.AddQueues(queues...)
}

// outFiles creates the files that a case finds in its own directory.
func (d *driver) outFiles(c jobCase) error {
	dir := outDir(c.slug)
	if err := d.cell.AddFile(dir+".sh", c.script, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(d.cell.Path(dir), 0o755); err != nil {
		return err
	}
	path := func(name string) string { return d.cell.Path(dir + "/" + name) }
	return errors.Join(
		os.Chown(d.cell.Path(dir), gridengine.AliceUID, gridengine.AliceUID),
		d.cell.AddFile(dir+"/existing", "existing text\n", 0o600),
		d.cell.AddFile(dir+"/roots", "root's\n", 0o600), os.Chown(path("roots"), 0, 0),
		os.Symlink("existing", path("link")), os.Lchown(path("link"), gridengine.AliceUID, gridengine.AliceUID))
}

// run submits the cases phase by phase. A failure with one job does not prevent the comparison of
// the others.
func (d *driver) run(probePath string) error {
	if err := d.furnish(probePath); err != nil {
		return fmt.Errorf("cannot furnish the cell: %w", err)
	}
	var errs []error
	last := slices.MaxFunc(d.cases, func(a, b jobCase) int { return int(a.phase - b.phase) })
	for p := phaseMain; p <= last.phase; p++ {
		begun := time.Now()
		if p != phaseMain && p < phaseHostError {
			if err := d.configure(p); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		if err := d.runPhase(p); err != nil {
			errs = append(errs, fmt.Errorf("phase %d: %w", p, err))
		}
		d.observeActive(p)
		d.took = append(d.took, time.Since(begun).Round(100*time.Millisecond))
	}
	return errors.Join(append(errs, d.observe())...)
}

// patient calls wait, which returns an error when its deadline has passed, again as long as there is
// progress.
func patient(progress func() string, wait func() error) error {
	for begun := time.Now(); ; {
		before := progress()
		err := wait()
		if err == nil || progress() == before || time.Since(begun) > most {
			return err
		}
	}
}

func (d *driver) patient(wait func() error) error { return patient(d.progress, wait) }

// progress returns a text that changes whenever the cell starts or ends a job, or a job writes a file for
// the test.
func (d *driver) progress() string {
	var b strings.Builder
	for _, path := range []string{d.cell.AccountingFile(), filepath.Dir(d.cell.ActiveDir(1, 1)), d.cell.Path(flagDir), d.cell.Path(seenDir)} {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// await waits for a condition.
func (d *driver) await(deadline time.Duration, what string, ready func() (bool, error)) error {
	return d.patient(func() error { return d.cell.Poll(deadline, what, ready) })
}

// awaitRecords waits until each job has that many accounting records.
func (d *driver) awaitRecords(want map[int]int) error {
	return d.patient(func() error { return d.cell.Wait(want, phaseDeadline) })
}

// jobPID waits for the first process of a job and returns its process ID.
func (d *driver) jobPID(job int) (pid int, err error) {
	err = d.patient(func() (err error) {
		pid, err = d.cell.JobPID(job, 0, stepDeadline)
		return err
	})
	return pid, err
}

// configure changes the configuration and waits until sge_execd logs that it has received it.
func (d *driver) configure(p phase) error {
	conf := p.conf()
	first, _, _ := strings.Cut(conf["execd_params"], ",") // the log truncates long values
	said := `using "` + first
	if d.agent {
		said = "the configuration of sge_qmaster is used"
	}
	before := strings.Count(d.execdLog(), said)
	if err := d.cell.SetConf(conf); err != nil {
		return err
	}
	return d.await(stepDeadline, "execd has the configuration of the phase", func() (bool, error) {
		return strings.Count(d.execdLog(), said) > before, nil
	})
}

func (d *driver) execdLog() string {
	if d.agent {
		return d.cell.AgentLog()
	}
	text, err := os.ReadFile(filepath.Join(d.cell.SpoolDir(), "messages"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (d *driver) runPhase(p phase) error {
	var acts sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	want := map[int]int{}
	for i, c := range d.cases {
		if c.phase != p {
			continue
		}
		job, err := d.submit(c)
		if err != nil {
			mu.Lock()
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			mu.Unlock()
			d.jobs[i] = -1
			continue
		}
		d.jobs[i], want[job] = job, c.ends
		d.mu.Lock()
		d.byJob[job] = c.slug
		d.mu.Unlock()
		if c.act != nil {
			acts.Go(func() {
				if err := c.act(d, job); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
				}
			})
		}
	}
	waited := d.awaitRecords(want)
	acts.Wait()
	return errors.Join(append(errs, waited, d.noteStates(p), d.clean())...)
}

func (d *driver) submit(c jobCase) (int, error) {
	queue := "all.q"
	if c.queue != nil {
		queue = c.slug + ".q"
	}
	args := append([]string{"-q", queue}, c.opts...)
	if c.script != "" {
		args = append(args, outDir(c.slug)+".sh")
	} else if !slices.Contains(c.opts, "-N") {
		args = append(args, "-N", c.slug) // the default name, taken from the command, may be refused
	}
	return d.cell.Submit("alice", append(args, c.cmd...)...)
}

// noteStates records the states in qstat of the jobs that have not left and of the queues in error
// state.
func (d *driver) noteStates(p phase) error {
	states, err := d.cell.JobStates()
	queues, err2 := d.cell.QueueStates()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for i, c := range d.cases {
		if c.phase == p {
			d.note(d.jobs[i], "state afterwards", states[d.jobs[i]])
			d.note(d.jobs[i], "queue afterwards", queues[c.slug+".q"])
			d.note(d.jobs[i], "all.q afterwards", queues["all.q"])
		}
	}
	return nil
}

// clean deletes the remaining jobs of a phase and clears error states.
func (d *driver) clean() error {
	if _, err := d.cell.Root("sh", "-c", "qdel -u alice; qmod -cq '*'"); err != nil && !strings.Contains(err.Error(), "no jobs registered") {
		// The exit status only says that some queue was not in error state.
		_ = err
	}
	return d.await(stepDeadline, "the cell is empty", func() (bool, error) {
		states, err := d.cell.JobStates()
		if err == nil && len(states) > 0 {
			err = fmt.Errorf("left are %v", states)
		}
		return err == nil, err
	})
}

func (d *driver) note(job int, key, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.notes[job] == nil {
		d.notes[job] = map[string]string{}
	}
	d.notes[job][key] = value
}

// flagPath returns the test's path of a file that a job and its act function share.
func (d *driver) flagPath(job int, name string) string {
	return d.cell.Path(flagDir + "/" + strconv.Itoa(job) + "." + name)
}
