package submit

import (
	"fmt"
	"testing"
)

// TestBindingUnits checks that options of Gridware Cluster Scheduler 9.1 have the meaning of -binding
// if it has an equivalent.
func TestBindingUnits(t *testing.T) {
	for line, want := range map[string]string{
		"-bunit C -bamount 4":                               "linear:4",
		"-bamount 4 -bunit C -btype host":                   "linear:4",
		"-bamount 1 -pe smp 4":                              "linear:slots",
		"-bamount 4 -btype host -pe smp 4":                  "linear:4",
		"-bamount 2 -binstance env -bstrategy pack":         "env linear:2",
		"-bamount 2 -bunit CC -bstrategy packed":            "linear:2",
		"-bamount 2 -bunit NONE -bstrategy NONE":            "linear:2",
		"-bamount 2 -btype NONE -binstance NONE":            "linear:2",
		"-bamount 2 -bsort NONE -bstart none -scope global": "linear:2",
		"-binding linear:3 -bamount 2":                      "linear:2",
		"-binding linear:3 -bamount 0":                      "linear:3",
		"-bunit C":                                          "",
		"-bamount 2 -pe smp 4":                              `refused: command line: -bamount 2: a parallel job cannot have several cores for each slot; use -btype host, or -binding linear:n`,
		"-bamount x":                                        `refused: command line: "-bamount x": "x" is not a number`,
		"-bunit T":                                          `refused: command line: "-bunit T": the unit "T" is not supported, expected C, a core; use -binding linear:n, striding:n:step or explicit:socket,core`,
		"-btype job":                                        `refused: command line: "-btype job": "job" is neither slot nor host`,
		"-binstance any":                                    `refused: command line: "-binstance any": unknown instance "any", expected set, env or pe`,
		"-bstrategy spread":                                 `refused: command line: "-bstrategy spread": the strategy "spread" is not supported, expected packed; use -binding linear:n, striding:n:step or explicit:socket,core`,
		"-bfilter ScC":                                      `refused: command line: "-bfilter ScC": the option is not supported; use -binding linear:n, striding:n:step or explicit:socket,core`,
		"-scope master -q all.q":                            `refused: command line: "-scope master": requests for master tasks alone are not supported: -masterq names queues for the master task, and other requests are for all tasks`,
		"-scope all":                                        `refused: command line: "-scope all": "all" is no scope, expected global, master or slave`,
		"-sync rx":                                          `refused: command line: "-sync rx": "rx" is not y[es], n[o] or x`,
		"-sync r":                                           `refused: command line: "-sync r": "r" is not supported, expected y, n or x; qstat -s r shows the jobs that run`,
	} {
		t.Run(line, func(t *testing.T) {
			got := ""
			r, err := Parse(Input{Args: append(splitList(line, " "), "-b", "y", "true"), Master: true})
			switch {
			case err != nil:
				got = "refused: " + err.Error()
			case r.Binding != nil:
				got = r.Binding.String()
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	if r, err := Parse(Input{Args: []string{"-sync", "x", "-b", "y", "true"}, Master: true}); err != nil || !r.Sync {
		t.Errorf("-sync x: %+v, %v", r, err)
	}
}

// TestBindingUnitsOfQalter checks that qalter takes these options for a change of -binding.
func TestBindingUnitsOfQalter(t *testing.T) {
	const unchanged = ": nothing is to be changed, expected -bamount, or -l or -q for -scope"
	for line, want := range map[string]string{
		"-bamount 1":                               "[-binding] linear:slots",
		"-bamount 4 -btype host -bunit C":          "[-binding] linear:4",
		"-bamount 4 -btype host -binding linear:2": "[-binding] linear:4",
		"-bamount 1 -binstance env -N name":        "[-N -binding] env linear:slots",
		"-bamount 0":                               "[-binding] none",
		"-bamount 2":                               "refused: command line: -bamount 2: qalter sets one core for each slot, or with -btype host several for the host; or use -binding linear:n",
		"-bstrategy packed -bfilter NONE":          "refused: command line: -bstrategy, -bfilter" + unchanged,
		"-scope global":                            "refused: command line: -scope" + unchanged,
		"-scope global -p 0":                       "[-p] none",
		"-scope slave -l h_rt=1":                   `refused: command line: "-scope slave": requests for slave tasks alone are not supported: -masterq names queues for the master task, and other requests are for all tasks`,
		"-bunit T":                                 `refused: command line: "-bunit T": the unit "T" is not supported, expected C, a core; use -binding linear:n, striding:n:step or explicit:socket,core`,
	} {
		t.Run(line, func(t *testing.T) {
			got := "none"
			a, err := ParseAlteration(Input{Args: append(splitList(line, " "), "17")})
			if err == nil && a.Request.Binding != nil {
				got = a.Request.Binding.String()
			}
			if err != nil {
				got = "refused: " + err.Error()
			} else {
				got = fmt.Sprint(a.Options) + " " + got
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
