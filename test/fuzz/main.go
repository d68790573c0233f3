// Command fuzz runs the fuzz tests of the module, one after another:
//
//	fuzz [-time DURATION] [-count N] [-turn K] [PATTERN]
//
// With -count it runs only N of them: the turn K selects them, and consecutive turns go through all
// of them. Continuous integration uses the number of commits as the turn, so that each change
// fuzzes other targets. PATTERN is a regular expression for PACKAGE.NAME.
//
// An input that fails stays in testdata/fuzz of its package, where go test finds it
// from then on. The last line is "N passed, N failed"; the exit status is 1 if a
// target failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	duration := flag.Duration("time", 30*time.Second, "how long to fuzz each target")
	count := flag.Int("count", 0, "number of targets; 0 for all")
	turn := flag.Int("turn", 0, "which `targets`, if not all")
	flag.Parse()
	pattern, err := regexp.Compile(flag.Arg(0))
	if err != nil || flag.NArg() > 1 || *count < 0 || *turn < 0 || *duration <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	all, err := targets(".", pattern)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("no fuzz test matches %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	chosen := choose(all, *count, *turn)
	failed := 0
	for i, t := range chosen {
		fmt.Printf("fuzz: %d/%d %s\n", i+1, len(chosen), t)
		if err := t.run(os.Stdout, *duration); err != nil {
			fmt.Printf("--- FAIL: %s: %v\n", t, err)
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(chosen)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
