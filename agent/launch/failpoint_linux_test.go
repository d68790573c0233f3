package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// failpoints are those in the sources of a package.
func failpoints(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`failpoint\.At\("([^"]+)"\)|\.step\("([^"]+)"\)|failpoint\.AtOf\("(shepherd-[a-z]+)"`)
	var names []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range at.FindAllStringSubmatch(string(text), -1) {
			switch {
			case m[1] != "":
				names = append(names, m[1])
			case m[2] != "":
				names = append(names, "jobdir-"+m[2])
			default:
				for _, step := range []string{"prolog", "pe_start", "pe_stop", "epilog"} {
					names = append(names, m[3]+"-"+step)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// optionsFor returns the options of agentsOrder and the command of a job that reaches a failpoint.
func optionsFor(point string) (options, command string) {
	switch point {
	case "shepherd-error":
		return "error", "echo run >> $RUNS; exit 3"
	case "shepherd-request":
		return "asked", "echo run >> $RUNS; exec sleep 1000"
	case "launch-scratch", "launch-mounted":
		return "tmpfs", "echo run >> $RUNS; exit 3"
	case "shepherd-before-checkpointed", "shepherd-checkpointed":
		return "migrates", "echo run >> $RUNS; exec sleep 1000"
	}
	return "all", "echo run >> $RUNS; sh -c 'exit 3'; exit $?"
}

// TestAgentKilledAtEachStep checks that another agent continues wherever an agent is killed: an
// accepted job runs once, its outcome is known, and no files are left behind.
func TestAgentKilledAtEachStep(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	points := append(failpoints(t, "."), failpoints(t, "../../jobdir")...)
	for _, name := range []string{jobdir.FileStart, jobdir.FileEnvironment, jobdir.FileArguments, jobdir.FilePEHosts, jobdir.FileConfig} {
		points = append(points, "jobdir-"+name)
	}
	points = slices.DeleteFunc(points, func(p string) bool {
		return p == "jobdir-number" || slices.Contains(quotaPoints, p) // not reached
	})
	t.Attr("failpoints", fmt.Sprint(len(points)))
	if len(points) < 25 {
		t.Errorf("there are %q only", points)
	}
	programs, err := mortal()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			options, command := optionsFor(point)
			if options == "tmpfs" {
				testenv.Require(t, testenv.Root)
			}
			newPlace(t).agentKilledAt(t, point, programs+"/agent", programs+"/"+ShepherdName, options, command)
		})
	}
}

// agentKilledAt kills an agent at a failpoint, and starts another one behind it.
func (p *place) agentKilledAt(t *testing.T, point, agent, shepherd, options, command string) {
	t.Helper()
	says, killed := p.runAgent(t, agent, shepherd, "whole", p.runs(command), agentEnv+"_OPTIONS="+options, "EXECD_FAILPOINT="+point)
	if !killed {
		t.Fatal("the failpoint was not met")
	}
	outcome, ran := p.goOn(t), p.hasRun()
	if outcome == nil {
		outcome = says.Outcome
	}
	switch {
	case outcome != nil:
		if ran != 1 || outcome.ExitStatus != 3 || outcome.Failed != 0 {
			t.Errorf("it has run %d times, with the outcome %+v", ran, outcome)
		}
	case says.Accepted:
		t.Error("a job that was accepted is lost")
	case ran > 0:
		t.Error("it has run, and nobody knows")
	}
	p.nothingBehind(t)
	p.noMounts(t)
}

// quotaPoints are the failpoints of jobs with a project quota, which only guests have.
var quotaPoints = []string{"launch-project", "launch-quota"}

// TestScratchQuotaKilled checks that an agent that is killed while it makes a project quota leaves no
// directory and no limit. In the guests of make soak this program is built with failpoints.
func TestScratchQuotaKilled(t *testing.T) {
	for _, point := range quotaPoints {
		p := newPlace(t)
		p.withQuota(t, "ext4")
		testenv.Soak(t)
		p.agentKilledAt(t, point, "/proc/self/exe", realSupervisor(t), "quota", "echo run >> $RUNS; exit 3")
		p.noLimits(t)
	}
}

// TestSupervisorKilledAtEachStep checks that a job ends with its supervisor wherever that is killed,
// does not run a second time, and counts as successful only if it was.
func TestSupervisorKilledAtEachStep(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	points := failpoints(t, "../../starter")
	t.Attr("failpoints", fmt.Sprint(len(points)))
	if len(points) < 25 {
		t.Errorf("there are %q only", points)
	}
	programs, err := mortal()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		options, command := optionsFor(point)
		t.Run(point+", with its agent", func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			says, killed := p.runAgent(t, programs+"/agent", programs+"/"+ShepherdName, "whole", p.runs(command),
				agentEnv+"_OPTIONS="+options, "EXECD_FAILPOINT="+point)
			if killed || !says.Removed {
				t.Fatalf("the agent says %+v, it was killed: %v", says, killed)
			}
			p.checkOutcome(t, point, says.Outcome)
			p.nothingBehind(t)
		})
		if options == "asked" || options == "migrates" {
			continue // nobody asks
		}
		t.Run(point+", without an agent", func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			_, killed := p.runAgent(t, programs+"/agent", programs+"/"+ShepherdName, "launch", p.runs(command),
				agentEnv+"_OPTIONS="+options, "EXECD_FAILPOINT="+point)
			if !killed {
				t.Fatal("the agent was not killed")
			}
			outcome := p.goOn(t)
			if outcome == nil {
				t.Fatal("the job is lost")
			}
			p.checkOutcome(t, point, outcome)
			p.nothingBehind(t)
		})
	}
}

// checkOutcome checks the outcome of a job whose supervisor was killed.
func (p *place) checkOutcome(t *testing.T, point string, o *job.Outcome) {
	t.Helper()
	ran := p.hasRun()
	switch {
	case ran > 1:
		t.Errorf("it has run %d times", ran)
	case o.Failed == job.FailedNone:
		// It had come to its end, or had not begun and was started again.
		if o.ExitStatus != 3 || ran != 1 || point != "shepherd-exit_status" && point != "shepherd-begin" {
			t.Errorf("it has run %d times, with the outcome %+v", ran, o)
		}
	case point == "shepherd-checkpointed":
		if o.Failed != job.FailedMigrate || o.Effect != job.Restarts || !o.Ran || o.Restart != job.RestartedJob || o.Start.IsZero() || o.End.Before(o.Start) {
			t.Errorf("outcome %+v", o)
		}
	case o.Failed != job.FailedNoExitStatus && o.Failed != job.FailedBeforeProlog:
		t.Errorf("outcome %+v", o)
	case o.Failed == job.FailedBeforeProlog && ran > 0:
		t.Errorf("it has run and is said not to have: %+v", o)
	}
}

// runs completes a command that counts how often it is run.
func (p *place) runs(command string) string {
	return strings.ReplaceAll(command, "$RUNS", p.dir+"/out/runs")
}

func (p *place) hasRun() int {
	b, _ := os.ReadFile(p.dir + "/out/runs")
	return strings.Count(string(b), "run\n")
}

// goOn returns an agent that is started behind one that was killed. It returns the outcome
// of the job if there was one.
func (p *place) goOn(t *testing.T) *job.Outcome {
	t.Helper()
	o := must(p.order("true"))
	groups := p.groups(t, o)
	j, stage, err := Open(p.spool, groups, nil, seven)
	removeScript := func() {
		if err := p.spool.RemoveScript(seven.Job); err != nil {
			t.Error(err)
		}
	}
	defer removeScript()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, jobdir.ErrIncomplete):
		if err := Discard(p.spool, groups, seven); err != nil {
			t.Error(err)
		}
		return nil
	case err != nil:
		t.Fatal(err)
	}
	defer j.Close()
	if stage == Prepared {
		launched(t, j)
	}
	outcome := j.Collect(waited(t, j))
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	return outcome
}

// nothingBehind: no files and no processes are left.
func (p *place) nothingBehind(t *testing.T) {
	t.Helper()
	p.nothingLeft(t)
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(e)
		if err != nil || !strings.Contains(string(b), "SGE_JOB_SPOOL_DIR="+p.dir) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(e, "/proc/%d/", &pid); err == nil && process.Read(pid).State != 'Z' {
			t.Errorf("%s is left", e)
		}
	}
}
