package qconf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readBack checks that an object prints in both styles as something that reads
// back to the same, and that no line of a list is longer than qconf's.
func readBack(t interface {
	Errorf(string, ...any)
	Helper()
}, kind string, text Text,
) {
	t.Helper()
	single := text.Format(SingleLine)
	for _, style := range []Style{Wrapped, SingleLine} {
		printed := text.Format(style)
		again, err := parsers[kind]("again", []byte(printed))
		if err != nil {
			t.Errorf("%s is not read back: %v\n%s", kind, err, printed)
			return
		}
		if got := again.Format(SingleLine); got != single {
			t.Errorf("%s is not the same:\n%q\n%q\nprinted\n%s", kind, single, got, printed)
		}
		if w := again.Warnings(); kind != "conf" && kind != "local" && len(w) > 0 {
			t.Errorf("printed with a warning: %v", w)
		}
	}
}

// Generators of values, by the attribute's kind: what is right, in all its
// spellings, and long enough to be wrapped.
var (
	aName    = rapid.StringMatching(`[A-Za-z0-9_*-][A-Za-z0-9_.*-]{0,20}`).Filter(func(s string) bool { return CheckName(s) == nil })
	aHost    = rapid.StringMatching(`[a-z][a-z0-9-]{0,12}(\.[a-z]{1,8}){0,2}`).Filter(func(s string) bool { return CheckHostName(s) == nil })
	aGroup   = rapid.Map(aName, func(s string) string { return "@" + s })
	aWord    = rapid.StringMatching("[!-Z^-~]{1,30}").Filter(func(s string) bool { return !strings.ContainsAny(s, "$") })
	anyBlank = rapid.SampledFrom([]string{" ", "  ", "\t", " \t "})
	anySep   = rapid.SampledFrom([]string{" ", ",", ", ", " , ", "  "})
	aTime    = rapid.OneOf(rapid.StringMatching(`[1-9][0-9]{0,5}`), rapid.StringMatching(`[0-9]{0,3}:[0-9]{0,2}:[0-9]{0,2}`))
	aCommand = rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"/", "/opt/x"}).Draw(t, "path") + aWord.Draw(t, "rest")
		for range rapid.IntRange(0, 12).Draw(t, "args") {
			s += anyBlank.Draw(t, "blank") + rapid.OneOf(aWord, rapid.SampledFrom([]string{"$job_id", "$queue,x", `\`, `a\`, "a,", ",[", "]", "#"})).Draw(t, "arg")
		}
		return strings.TrimRight(s, blanks+`\`)
	})
)

func listOf(item *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		items := rapid.SliceOfN(item, 1, 25).Draw(t, "items")
		s := items[0]
		for _, i := range items[1:] {
			s += anySep.Draw(t, "sep") + i
		}
		return s
	})
}

func orNoneText(g *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.OneOf(g, rapid.SampledFrom([]string{"NONE", "none"}))
}

func TestQueuesReadBack(t *testing.T) {
	names := orNoneText(listOf(aName))
	values := map[string]*rapid.Generator[string]{
		"hostlist": orNoneText(listOf(rapid.OneOf(aHost, aGroup))),
		"slots":    rapid.StringMatching(`[0-9]{1,6}`), "priority": rapid.StringMatching(`-?[0-9]`),
		"pe_list": names, "owner_list": names, "xuser_lists": names, "ckpt_list": names,
		"h_rt": aTime, "notify": aTime, "suspend_interval": rapid.OneOf(aTime, rapid.Just("infinity")),
		"h_vmem": rapid.StringMatching(`[1-9][0-9]{0,4}[kKmMgG]?`), "s_data": rapid.Just("INFINITY"),
		"prolog":           orNoneText(rapid.OneOf(aCommand, rapid.Map(aCommand, func(s string) string { return "root@" + s }))),
		"terminate_method": orNoneText(rapid.OneOf(aCommand, rapid.SampledFrom([]string{"TERM", "sigint", "9"}))),
		"tmpdir":           aCommand, "shell": aCommand,
		"qtype":      rapid.SampledFrom([]string{"NONE", "batch", "INTERACTIVE,BATCH", "interactive"}),
		"processors": rapid.OneOf(rapid.Just("undefined"), listOf(rapid.StringMatching(`[0-9]{1,2}`))),
		"subordinate_list": rapid.OneOf(rapid.Just("NONE"), rapid.SampledFrom([]string{
			"low.q", "low.q=1 , mid.q", "slots=2(a)", "slots=12(a.q:1:sr,bbbbbbbbbbbbbbbbbbbbbbbbbbbb.q:lr c.q:7, dddddddddddddddddddddddd.q:2:lr)",
		})),
		"load_thresholds": rapid.SampledFrom([]string{"NONE", "np_load_avg=1.75", "a=1,bbbbbbbbbbbbbbbbbbbbbbbbbb=2 cccccccccccccccccccccccccccc=x , d=3"}),
	}
	rapid.Check(t, func(t *rapid.T) {
		file := "qname " + aName.Draw(t, "qname") + "\n"
		for _, attribute := range sortedKeys(values) {
			if !rapid.Bool().Draw(t, "with "+attribute) {
				continue
			}
			file += attribute + " " + values[attribute].Draw(t, attribute)
			if attribute == "hostlist" {
				file += "\n"
				continue
			}
			seen := map[string]bool{}
			for range rapid.IntRange(0, 6).Draw(t, "settings") {
				who := rapid.OneOf(aHost, aGroup).Draw(t, "who")
				if !seen[strings.ToLower(who)] {
					seen[strings.ToLower(who)] = true
					file += anySep.Filter(func(s string) bool { return strings.Contains(s, ",") }).Draw(t, "sep") + "[" + who + "=" + values[attribute].Draw(t, attribute) + "]"
				}
			}
			file += "\n"
		}
		text, err := parsers["queues"]("generated", []byte(file))
		if err != nil {
			// Brackets in generated commands may open or close a setting.
			if !strings.Contains(file, " ,[") && !strings.Contains(file, "\t,[") && !strings.Contains(file, " ]") && !strings.Contains(file, "\t]") {
				t.Fatal(err, file)
			}
			t.Skip("brackets")
		}
		readBack(t, "queues", text)
	})
}

func TestConfigurationsReadBack(t *testing.T) {
	params := listOf(rapid.OneOf(rapid.SampledFrom([]string{"KEEP_ACTIVE=true", "INHERIT_ENV=0;S_RT_KILL=1", "NOTIFY_KILL=TERM", "S_LOCKS=7"}),
		rapid.StringMatching(`[A-Z_]{1,20}(=[a-z0-9;:/.]{1,20})?`).Filter(func(s string) bool { _, err := execdParams.read(s); return err == nil && !isWord(s, none) })))
	values := map[string]*rapid.Generator[string]{
		"execd_params": params, "prolog": orNoneText(aCommand), "qlogin_command": aCommand, "mailer": aCommand, "xterm": orNoneText(aCommand),
		"load_sensor": orNoneText(listOf(rapid.StringMatching(`/[a-z/]{1,30}`))), "login_shells": orNoneText(listOf(aName)),
		"additional_jvm_args": aCommand, "load_report_time": rapid.StringMatching(`[1-9][0-9]{0,3}`),
		"gid_range": rapid.OneOf(rapid.Just("none"), rapid.SampledFrom([]string{"100", "200-300 , 301", "20000-20100,20200-20300 20400-20500,20600-20700,20800-20900,30000-30100"})),
	}
	rapid.Check(t, func(t *rapid.T) {
		file := "# generated\n"
		for _, attribute := range rapid.Permutation(sortedKeys(values)).Draw(t, "order") {
			if rapid.Bool().Draw(t, "with "+attribute) {
				file += attribute + " " + values[attribute].Draw(t, attribute) + "\n"
			}
		}
		for _, kind := range []string{"conf", "local"} {
			text, err := parsers[kind]("generated", []byte(file))
			if err != nil {
				t.Fatal(err)
			}
			readBack(t, kind, text)
		}
	})
}

// fuzz feeds a reader with files: what it accepts must read back, what it
// refuses must have a file, a problem, and a line of the file.
func fuzz(f *testing.F, kind string, seeds ...string) {
	files, err := filepath.Glob("testdata/qconf/" + kind + "/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := parsers[kind]("file", data)
		if err == nil {
			readBack(t, kind, text)
			return
		}
		if len(Errors(err)) == 0 {
			t.Fatalf("no *Error in %v", err)
		}
		for _, e := range Errors(err) {
			if e.File != "file" || e.Problem == "" || e.Line < 0 || e.Line > strings.Count(string(data), "\n")+1 {
				t.Errorf("%+v", e)
			}
		}
	})
}

func FuzzQueue(f *testing.F) {
	fuzz(f, "queues", "qname q\nslots 1,[n1=2],[@g=3]\nprolog root@/x a,b,[n=/y [z] \\\n w]\n", "qname q\nsubordinate_list slots=2(a:1:lr,b)\n")
}

func FuzzConfiguration(f *testing.F) {
	fuzz(f, "conf", "execd_params A=b;c , d\ngid_range 100-200,300\n", "qmaster_params none,none\nprolog /x a,  b\\\nc")
}
func FuzzLocal(f *testing.F)      { fuzz(f, "local", "mailer /x\n") }
func FuzzHostGroup(f *testing.F)  { fuzz(f, "hostgroups", "group_name @a\nhostlist n1,\\\n n2\n") }
func FuzzPE(f *testing.F)         { fuzz(f, "pes", "pe_name a\nallocation_rule 7\nqsort_args a, b") }
func FuzzCheckpoint(f *testing.F) { fuzz(f, "ckpts", "ckpt_name a\nwhen n\n") }

// FuzzLines checks that the result of readLines has no comments and continued lines, and that a line
// that is printed plainly is read unchanged.
func FuzzLines(f *testing.F) {
	f.Add("a 1 \\\n 2\n# x\n\nb\n")
	f.Fuzz(func(t *testing.T, data string) {
		lines, errs := readLines("file", data)
		last := 0
		for _, l := range lines {
			if l.name == "" || strings.ContainsAny(l.name, " \t\n") || strings.Contains(l.value, "\n") || strings.Trim(l.value, blanks) != l.value {
				t.Errorf("%+v", l)
			}
			if l.number <= last || l.number > strings.Count(data, "\n")+1 {
				t.Errorf("line %d after %d", l.number, last)
			}
			last = l.number
			if checkValue(l.value) != nil || strings.HasPrefix(l.name, "#") || checkValue(l.name) != nil {
				continue
			}
			again, _ := readLines("file", l.name+" "+l.value+"\n")
			want := line{name: l.name, value: l.value, file: "file", number: 1}
			if len(again) != 1 || !reflect.DeepEqual(again[0], want) {
				t.Errorf("%+v is read as %+v", l, again)
			}
		}
		if len(errs) > 1 {
			t.Error(errs)
		}
	})
}
