package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// shell runs a script with execd in its PATH, and returns what it prints.
func shell(t *testing.T, program string, args ...string) string {
	t.Helper()
	build(t)
	cmd := exec.Command(program, args...)
	cmd.Env = setenv(os.Environ(), "PATH="+base+"/bin:"+os.Getenv("PATH"), "EXECD_SOCKET="+filepath.Join(t.TempDir(), "nowhere"), "HOME="+t.TempDir())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Errorf("%s: %v\n%s", program, err, &errs)
	}
	return string(out)
}

// completed are command lines with what completes them, one of several words.
var completed = map[string]string{
	"execd standa":               "standalone",
	"execd jobs --sta":           "--state",
	"execd help qsel":            "qselect",
	"execd simulate --format=j":  "--format=json",
	"qstat -explain ":            "a",
	"qsub -hold_jid_":            "-hold_jid_ad",
	"execd completion f":         "fish",
	"execd config ch":            "check",
	"execd jobs --state running": "running",
	"execd report --by pro":      "project",
	"execd top --sort mem":       "memory",
	"execd tail --foll":          "--follow",
	"execd seff --js":            "--json",
	"execd web --li":             "--link",
	"qacct -slo":                 "-slots",
}

func TestCompletionInBash(t *testing.T) {
	lines := map[string]string{"execd simulate --format=j": "json"} // readline keeps what is before the equals sign
	for line, want := range completed {
		if lines[line] == "" {
			lines[line] = want
		}
	}
	for line, want := range lines {
		got := shell(t, "bash", "--norc", "-c", `source <(execd completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:@'
_execd
printf '%s\n' "${COMPREPLY[@]}"
complete -p qsub execd >/dev/null`, "bash", line)
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("%q: %q, expected %q", line, got, want)
		}
	}
}

func TestCompletionInFish(t *testing.T) {
	testenv.Require(t, testenv.Fish)
	for line, want := range completed {
		got := shell(t, "fish", "--no-config", "-c", `execd completion fish | source; complete -C $argv[1]`, line)
		if !slices.ContainsFunc(strings.Split(got, "\n"), func(l string) bool { word, _, _ := strings.Cut(l, "\t"); return word == want }) {
			t.Errorf("%q: %q, expected %q", line, got, want)
		}
	}
}

// TestCompletionInZsh calls the function of the script as the shell does, with words and CURRENT.
func TestCompletionInZsh(t *testing.T) {
	testenv.Require(t, testenv.Zsh)
	for line, want := range completed {
		got := shell(t, "zsh", "-f", "-c", `autoload -Uz compinit && compinit -u -D
source <(execd completion zsh)
[[ $_comps[qsub] == _execd ]] || exit 1
compadd() { print -rl -- "${(@P)@[-1]}" }
words=("${(@s: :)1}") CURRENT=$#words
_execd`, "zsh", line)
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("%q: %q, expected %q", line, got, want)
		}
	}
}

// TestCompletionWithSilentDaemon starts a daemon that takes connections and never answers. The
// shell gets an answer without names.
func TestCompletionWithSilentDaemon(t *testing.T) {
	build(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, words := range [][]string{{"qsub", "-q", ""}, {"qdel", ""}, {"execd", "attach", ""}} {
		cmd := exec.Command(base+"/bin/execd", append([]string{"__complete"}, words...)...)
		cmd.Env = setenv(os.Environ(), "EXECD_SOCKET="+socket)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }) // the commands themselves wait 30 s
		out, err := cmd.Output()
		timer.Stop()
		if err != nil || string(out) != "words\n" {
			t.Errorf("%q: %v, %q", words, err, out)
		}
	}
}

// TestHelpWithSilentDaemon asks each command for its help text while the daemon takes connections and never
// answers.
func TestHelpWithSilentDaemon(t *testing.T) {
	build(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	run := func(words ...string) (string, error) {
		cmd := exec.Command(base+"/bin/execd", words...)
		cmd.Env = setenv(os.Environ(), "EXECD_SOCKET="+socket)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }) // the commands themselves wait 30 s
		defer timer.Stop()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	list, err := run("__complete", "execd", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimPrefix(list, "words\n")) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		option := "--help"
		if strings.HasPrefix(name, "q") || name == "sge_share_mon" {
			option = "-help"
		}
		if out, err := run(name, option); err != nil || !strings.Contains(strings.ToLower(out), "usage: ") {
			t.Errorf("%s %s: %v\n%s", name, option, err, out)
		}
	}
}
