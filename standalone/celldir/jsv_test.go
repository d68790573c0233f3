package celldir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// language is one in which JSV scripts are written.
type language struct {
	need        testenv.Need
	interpreter []string // reads a script from its last argument
	template    string   // the script to begin with
	script      string   // does what jsvTranscript shows
}

var languages = map[string]language{
	"sh":   {"", []string{"sh", "-c"}, "jsv.sh", shellJSV},
	"bash": {"", []string{"bash", "-c"}, "jsv.sh", shellJSV},
	"perl": {testenv.Perl, []string{"perl", "-e"}, "jsv.pl", `
use strict; use warnings FATAL => 'all';
use lib "$ENV{SGE_ROOT}/util/resources/jsv";
use JSV qw(:DEFAULT jsv_send_env jsv_log_info);
sub word { return $_[0] ? 'true' : 'false'; }
jsv_on_start(sub { jsv_send_env(); });
jsv_on_verify(sub {
	jsv_log_info(word(jsv_is_param('N')), jsv_get_param('N'), word(jsv_is_param('P')), '<' . jsv_get_param('P') . '>');
	jsv_log_info(word(jsv_sub_is_param('l_hard', 'h_rt')), jsv_sub_get_param('l_hard', 'h_rt'), word(jsv_sub_is_param('l_hard', 'h')), '<' . jsv_sub_get_param('l_hard', 'lic') . '>');
	jsv_log_info(word(jsv_is_env('A')), '<' . jsv_get_env('A') . '>', word(jsv_is_env('B')));
	jsv_set_param('N', 'a  *');
	jsv_set_param('P', '');
	jsv_sub_add_param('l_hard', 'h_vmem', '2G');
	jsv_sub_add_param('l_hard', '010');
	jsv_sub_add_param('l_hard', 'h_rt', 7);
	jsv_sub_del_param('l_hard', 'lic');
	jsv_sub_del_param('l_hard', 'nothing');
	jsv_add_env('B', 'x y');
	jsv_mod_env('A', '');
	jsv_del_env('C');
	jsv_del_env('D');
	jsv_log_warning(jsv_get_param('N'));
	jsv_correct('it is', 'better');
});
jsv_main();
`},
	"python": {testenv.Python, []string{"python3", "-c"}, "jsv.py", `
import os, sys
sys.path.append(os.environ["SGE_ROOT"] + "/util/resources/jsv")
from JSV import *
def word(value):
    return {True: "true", False: "false"}[value]
def jsv_on_start():
    jsv_send_env()
def jsv_on_verify():
    jsv_log_info(word(jsv_is_param("N")), jsv_get_param("N"), word(jsv_is_param("P")), "<" + jsv_get_param("P") + ">")
    jsv_log_info(word(jsv_sub_is_param("l_hard", "h_rt")), jsv_sub_get_param("l_hard", "h_rt"), word(jsv_sub_is_param("l_hard", "h")), "<" + jsv_sub_get_param("l_hard", "lic") + ">")
    jsv_log_info(word(jsv_is_env("A")), "<" + jsv_get_env("A") + ">", word(jsv_is_env("B")))
    jsv_set_param("N", "a  *")
    jsv_set_param("P", "")
    jsv_sub_add_param("l_hard", "h_vmem", "2G")
    jsv_sub_add_param("l_hard", "010")
    jsv_sub_add_param("l_hard", "h_rt", 7)
    jsv_sub_del_param("l_hard", "lic")
    jsv_sub_del_param("l_hard", "nothing")
    jsv_add_env("B", "x y")
    jsv_mod_env("A", "")
    jsv_del_env("C")
    jsv_del_env("D")
    jsv_log_warning(jsv_get_param("N"))
    jsv_correct("it is", "better")
jsv_main()
`},
	"tcl": {testenv.Tcl, []string{"sh", "-c", `printf '%s' "$1" >"$SCRIPT" && exec tclsh "$SCRIPT"`, "sh"}, "jsv.tcl", `
source "$env(SGE_ROOT)/util/resources/jsv/jsv_include.tcl"
proc word {value} {
	if {$value} { return true }
	return false
}
proc jsv_on_start {} { jsv_send_env }
proc jsv_on_verify {} {
	jsv_log_info [word [jsv_is_param N]] [jsv_get_param N] [word [jsv_is_param P]] "<[jsv_get_param P]>"
	jsv_log_info [word [jsv_sub_is_param l_hard h_rt]] [jsv_sub_get_param l_hard h_rt] [word [jsv_sub_is_param l_hard h]] "<[jsv_sub_get_param l_hard lic]>"
	jsv_log_info [word [jsv_is_env A]] "<[jsv_get_env A]>" [word [jsv_is_env B]]
	jsv_set_param N "a  *"
	jsv_set_param P ""
	jsv_sub_add_param l_hard h_vmem 2G
	jsv_sub_add_param l_hard 010
	jsv_sub_add_param l_hard h_rt 7
	jsv_sub_del_param l_hard lic
	jsv_sub_del_param l_hard nothing
	jsv_add_env B "x y"
	jsv_mod_env A ""
	jsv_del_env C
	jsv_del_env D
	jsv_log_warning [jsv_get_param N]
	jsv_correct "it is" better
}
jsv_main
`},
}

const shellJSV = `
jsv_on_start() { jsv_send_env; }
jsv_on_verify() {
	jsv_log_info "$(jsv_is_param N) $(jsv_get_param N) $(jsv_is_param P) <$(jsv_get_param P)>"
	jsv_log_info "$(jsv_sub_is_param l_hard h_rt) $(jsv_sub_get_param l_hard h_rt) $(jsv_sub_is_param l_hard h) <$(jsv_sub_get_param l_hard lic)>"
	jsv_log_info "$(jsv_is_env A) <$(jsv_get_env A)> $(jsv_is_env B)"
	jsv_set_param N 'a  *'
	jsv_set_param P ''
	jsv_sub_add_param l_hard h_vmem 2G
	jsv_sub_add_param l_hard 010
	jsv_sub_add_param l_hard h_rt 7
	jsv_sub_del_param l_hard lic
	jsv_sub_del_param l_hard nothing
	jsv_add_env B 'x y'
	jsv_mod_env A ''
	jsv_del_env C
	jsv_del_env D
	jsv_log_warning "$(jsv_get_param N)"
	jsv_correct "it is" better
}
. "$SGE_ROOT/util/resources/jsv/jsv_include.sh"
jsv_main
`

// jsvJob is a job of a user who would have a shell or another language run a command, read a line
// that is none, or take bytes apart.
const jsvJob = "START\nPARAM VERSION 1.0\n" + `PARAM N $(touch planted) ${touch} [exec touch planted] "'` + "\\\rQUIT \xff\xc3\xa9\n" +
	"PARAM l_hard h_rt=60,lic\nPARAM e\n" + `ENV ADD A \ back  {slash [exec touch planted] ` + "\n" +
	"ENV ADD C c\nENV ADD x;touch${IFS}planted v\nENV ADD é=1 v\nENV ADD a(b) {\nBEGIN\n"

// jsvTranscript is the expected output of the script in each language for jsvJob.
var jsvTranscript = []string{
	"SEND ENV", "STARTED",
	`LOG INFO true $(touch planted) ${touch} [exec touch planted] "'` + "\\\rQUIT \xff\xc3\xa9 false <>",
	"LOG INFO true 60 false <>",
	`LOG INFO true <\ back  {slash [exec touch planted] > false`,
	"PARAM N a  *", "PARAM P", "PARAM l_hard h_rt=60,lic,h_vmem=2G", "PARAM l_hard h_rt=60,lic,h_vmem=2G,010",
	"PARAM l_hard lic,h_vmem=2G,010,h_rt=7", "PARAM l_hard h_vmem=2G,010,h_rt=7",
	"ENV ADD B x y", "ENV MOD A", "ENV DEL C",
	"LOG WARNING a  *", "RESULT STATE CORRECT it is better",
}

// TestJSV talks with a JSV script of each language: all say the same.
func TestJSV(t *testing.T) {
	dir := makeDir(t)
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			if l.need != "" {
				testenv.Require(t, l.need)
			}
			work := t.TempDir()
			cmd := exec.Command(l.interpreter[0], append(l.interpreter[1:], l.script)...)
			cmd.Dir = work
			cmd.Env = []string{"PATH=/usr/bin:/bin", "SGE_ROOT=" + dir, "SCRIPT=" + filepath.Join(t.TempDir(), "script")}
			cmd.Stdin = strings.NewReader(jsvJob + jsvJob + "QUIT\nSTART\n")
			out, err := cmd.CombinedOutput()
			got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if diff := cmp.Diff(slices.Concat(jsvTranscript, jsvTranscript), got); err != nil || diff != "" {
				t.Errorf("%v: want (-) and got (+):\n%s", err, diff)
			}
			if names, err := os.ReadDir(work); err != nil || len(names) > 0 {
				t.Errorf("a value was run as a command: %v (%v)", names, err)
			}
		})
	}
}

// TestJSVTemplates runs the scripts to begin with.
func TestJSVTemplates(t *testing.T) {
	dir := makeDir(t)
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			if l.need != "" {
				testenv.Require(t, l.need)
			}
			cmd := exec.Command(filepath.Join(dir, "util", "resources", "jsv", l.template))
			cmd.Env = []string{"PATH=/usr/bin:/bin", "SGE_ROOT=" + dir}
			cmd.Stdin = strings.NewReader("START\nPARAM b y\nBEGIN\nnonsense\nQUIT\n")
			const want = "STARTED\nRESULT STATE ACCEPT accepted\nERROR unknown command \"nonsense\"\n"
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
				t.Errorf("%q (%v), want %q", out, err, want)
			}
		})
	}
}

// TestPerlHashes reads lists as scripts in Perl do.
func TestPerlHashes(t *testing.T) {
	testenv.Require(t, testenv.Perl)
	cmd := exec.Command("perl", "-e", `use strict; use warnings FATAL => 'all'; use lib "$ENV{SGE_ROOT}/util/resources/jsv"; use JSV qw(:ALL);
jsv_on_verify(sub {
	my %params = jsv_get_param_hash();
	my %envs = jsv_get_env_hash();
	jsv_accept($params{N}, $params{l_hard}{h_rt}, exists $params{l_hard}{lic} && !defined $params{l_hard}{lic} ? 'lic' : 'none', sort(keys %{$params{q_hard}}), $envs{A});
});
jsv_main();`)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "SGE_ROOT=" + makeDir(t)}
	cmd.Stdin = strings.NewReader("START\nPARAM N a,b=c\nPARAM l_hard h_rt=60,lic\nPARAM q_hard b.q,a.q\nENV ADD A x\nBEGIN\n")
	const want = "STARTED\nRESULT STATE ACCEPT a,b=c 60 lic a.q b.q x\n"
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("%q (%v), want %q", out, err, want)
	}
}
