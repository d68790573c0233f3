package starter

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

func TestParseProcedure(t *testing.T) {
	v := variables{"job_id": "7", "job_name": "a b", "host": "node1", "empty": "", "cash": "$host"}
	for name, c := range map[string]struct {
		in   string
		user string
		argv []string
	}{
		"a path":                             {"/p", "", []string{"/p"}},
		"arguments":                          {"/p a  b\tc", "", []string{"/p", "a", "b", "c"}},
		"quotes are no quotes":               {`/p "two words"`, "", []string{"/p", `"two`, `words"`}},
		"a user":                             {"root@/p a", "root", []string{"/p", "a"}},
		"an @ behind a slash":                {"/p@home a@b", "", []string{"/p@home", "a@b"}},
		"a second @":                         {"u@v@/p", "u", []string{"v@/p"}},
		"an @ in front":                      {"@/p", "", []string{"@/p"}},
		"a value is one argument":            {"/p $job_name", "", []string{"/p", "a b"}},
		"a value within a word":              {"/p x$job_id.$host", "", []string{"/p", "x7.node1"}},
		"an empty value stays an argument":   {"/p $empty x", "", []string{"/p", "", "x"}},
		"a value in the path":                {"/opt/$host/p", "", []string{"/opt/node1/p"}},
		"a user is not a value":              {"$host@/p", "$host", []string{"/p"}},
		"what is not a variable stays":       {"/p $nobody $ $$ ${host} $hosts", "", []string{"/p", "$nobody", "$", "$$", "${host}", "$hosts"}},
		"values are not expanded once more":  {"/p $cash", "", []string{"/p", "$host"}},
		"nothing":                            {"", "", []string{""}},
		"blanks":                             {" \t ", "", []string{""}},
		"a user alone":                       {"root@", "root", []string{""}},
		"other white space is part of words": {"/p\u00a0a\v\fb\r c", "", []string{"/p\u00a0a\v\fb\r", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := parseProcedure(c.in, v)
			if p.user != c.user || !slices.Equal(p.argv, c.argv) {
				t.Errorf("%q is %q of user %q, want %q of user %q", c.in, p.argv, p.user, c.argv, c.user)
			}
		})
	}
}

// FuzzParseProcedure checks, for any configured procedure and any values that users choose, that
// there is a program, that the number of words is the configured one, and that no user or word
// comes from a value.
func FuzzParseProcedure(f *testing.F) {
	for _, s := range []string{"", " ", "/p", "root@/p $job_name x", "@", "a@b@c", "$x@/p", "$job_name", "\t$a$b$", "u/@p"} {
		f.Add(s, "a b")
		f.Add(s, "root@/bin/sh $host")
	}
	f.Fuzz(func(t *testing.T, command, value string) {
		v := variables{"job_name": value, "host": "node1", "a": value, "empty": ""}
		p := parseProcedure(command, v)
		words := strings.FieldsFunc(command, func(c rune) bool { return c == ' ' || c == '\t' })
		if want := max(1, len(words)); len(p.argv) != want {
			t.Fatalf("%d words, want %d", len(p.argv), want)
		}
		if p.user != "" && (!strings.HasPrefix(words[0], p.user+"@") || strings.Contains(p.user, "/")) {
			t.Fatalf("user %q is not in %q", p.user, command)
		}
		// If values contain nothing to expand, a second expansion changes nothing.
		plain := parseProcedure(command, variables{})
		if !slices.Equal(plain.argv, parseProcedure(strings.Join(plain.argv, " "), variables{}).argv) && p.user == "" &&
			!strings.ContainsAny(command, "@") && len(words) > 0 {
			t.Fatalf("words without values change: %q", plain.argv)
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "$a", "$a$b", "x$a.y", "$ab", "${a}", "$a_", "\\$a", "$a\x00$b", "\xff$a"} {
		f.Add(s, "value", "$a")
	}
	f.Fuzz(func(t *testing.T, s, a, b string) {
		v := variables{"a": a, "b": b}
		got := v.expand(s, nil)
		// The same by replacing the last dollar first.
		want := s
		for i := len(s) - 1; i >= 0; i-- {
			if s[i] != '$' {
				continue
			}
			n := i + 1
			for n < len(s) && isNameByte(s[n]) {
				n++
			}
			if value, ok := v[s[i+1:n]]; ok {
				want = want[:i] + value + want[n:]
			}
		}
		if got != want {
			t.Fatalf("%q with %q and %q is %q, want %q", s, a, b, got, want)
		}
		if same := v.expand(s, func(s string) string { return s }); same != got {
			t.Fatalf("quoting by nothing makes %q of %q", same, got)
		}
	})
}

// TestShellQuote compares with a shell.
func TestShellQuote(t *testing.T) {
	for _, s := range []string{
		"", "plain", "a b", "'", "''", `"`, `\`, "`id`", "$(id)", "$HOME", "*", "~", "a\nb", "-n", "#", "!", ";", "&", "|", "\xff\xfe",
		"a=b", "{a,b}", "[a]", "?", "<x", ">x", "(", ")", "\t", "é", "%s", `'"'"'`, "a'b'c",
	} {
		out, err := exec.Command("/bin/sh", "-c", "printf '%s|' x"+shellQuote(s)+" y").Output()
		if want := "x" + s + "|y|"; err != nil || string(out) != want {
			t.Errorf("%q is %s in a command line, and then %q, %v", s, shellQuote(s), out, err)
		}
	}
	if got := shellQuote("/a/b-c.d:e@f,g+h=i%j"); strings.Contains(got, "'") {
		t.Errorf("a harmless value is quoted: %s", got)
	}
}

func TestPseudoVariablesOfAJob(t *testing.T) {
	d := &job.Description{ID: job.ID{Job: 7}, Name: "n", Owner: "o", Queue: "q", Host: "h", MergeError: true}
	v := procedureVariables(d, commonVariables(d, "/sge", "default"), [3]string{"i", "o", "e"})
	for name, want := range map[string]string{
		"ja_task_id": "0", "processors": "UNDEFINED", "merge_stderr": "1", "fs_stdin_host": `""`, "fs_stdout_file_staging": "0",
		"sge_root": "/sge", "stderr_path": "e",
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("$%s is %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"pe", "pe_slots", "pe_hostfile", "job_pid"} {
		if got, ok := v[name]; ok {
			t.Errorf("$%s is %q, for a serial job's prolog", name, got)
		}
	}
}
