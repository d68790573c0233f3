package submit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
)

// files returns a ReadFile for texts by name.
func files(texts map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if t, ok := texts[name]; ok {
			return []byte(t), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
}

// parse reads a command line with a script "s" of the given lines.
func parse(args []string, script ...string) (*Request, error) {
	return Parse(Input{
		Args:     args,
		ReadFile: files(map[string]string{"s": "#!/bin/sh\n" + strings.Join(script, "\n")}),
		Env:      []string{"HOME=/home/u", "A=from env"},
		Cwd:      "/a dir",
	})
}

func TestCommandLine(t *testing.T) {
	read := files(map[string]string{
		"s":         "#!/bin/sh\n",
		"percent":   "%% -N scanned\n",
		"jobs/x.sh": "exit 0\n",
		"opts":      "-N at\n# comment\n-l q=1 # more\n",
		"outer":     "-@ opts -N outer",
		"loop":      "-@ loop",
		"prefix":    "-C %%",
		"qrsh":      "\n-inherit",
	})
	type want struct {
		Command, Name string
		Args          []string
		Stdin, Binary bool
	}
	for name, c := range map[string]struct {
		args []string
		want want
	}{
		"script only":                            {[]string{"s"}, want{"s", "s", nil, false, false}},
		"the name is the last part of the path":  {[]string{"jobs/x.sh"}, want{"jobs/x.sh", "x.sh", nil, false, false}},
		"all after the script belongs to it":     {[]string{"s", "-N", "x", "--", "y"}, want{"s", "s", []string{"-N", "x", "--", "y"}, false, false}},
		"two dashes after the script are its":    {[]string{"s", "--", "a"}, want{"s", "s", []string{"--", "a"}, false, false}},
		"no command is a script from stdin":      {nil, want{"STDIN", "STDIN", nil, true, false}},
		"a dash is a script from stdin":          {[]string{"-N", "n", "-", "a"}, want{"STDIN", "n", []string{"a"}, true, false}},
		"two dashes give stdin arguments":        {[]string{"-N", "x", "--", "s", "a b"}, want{"STDIN", "x", []string{"s", "a b"}, true, false}},
		"arguments may be empty":                 {[]string{"s", "", " "}, want{"s", "s", []string{"", " "}, false, false}},
		"a binary is not read":                   {[]string{"-b", "y", "/no/such", "-l"}, want{"/no/such", "such", []string{"-l"}, false, true}},
		"options of a file":                      {[]string{"-N", "cl", "-@", "opts", "s"}, want{"s", "at", nil, false, false}},
		"options after a file of options":        {[]string{"-@", "opts", "-N", "cl", "s"}, want{"s", "cl", nil, false, false}},
		"a file of options names another":        {[]string{"-@", "outer", "s"}, want{"s", "outer", nil, false, false}},
		"a prefix in a file of options":          {[]string{"-@", "prefix", "percent"}, want{"percent", "percent", nil, false, false}},
		"a value may look like an option":        {[]string{"-N", "-l", "s"}, want{"s", "-l", nil, false, false}},
		"clear forgets the options before it":    {[]string{"-N", "n", "-b", "y", "-clear", "s"}, want{"s", "s", nil, false, false}},
		"clear keeps the options after it":       {[]string{"-clear", "-N", "n", "s"}, want{"s", "n", nil, false, false}},
		"clear takes errors with it":             {[]string{"-t", "0", "-clear", "s"}, want{"s", "s", nil, false, false}},
		"the last of two options counts":         {[]string{"-N", "a", "-N", "b", "s"}, want{"s", "b", nil, false, false}},
		"-b n takes -b y back":                   {[]string{"-b", "y", "-b", "No", "s"}, want{"s", "s", nil, false, false}},
		"binding with an instance is two words":  {[]string{"-binding", "env", "linear:1", "s"}, want{"s", "s", nil, false, false}},
		"binding without an instance is one":     {[]string{"-binding", "linear:1", "s"}, want{"s", "s", nil, false, false}},
		"pe has two values":                      {[]string{"-pe", "smp", "-4", "s"}, want{"s", "s", nil, false, false}},
		"a binary job may be called like a path": {[]string{"-b", "y", "bin/a"}, want{"bin/a", "a", nil, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(Input{Args: c.args, ReadFile: read, ReadStdin: func() ([]byte, error) { return []byte("x\n"), nil }})
			if err != nil {
				t.Fatal(err)
			}
			got := want{r.Command, r.Name, r.Args, r.FromStdin, r.Binary}
			if len(got.Args) == 0 {
				got.Args = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if (r.Script == nil) != c.want.Binary {
				t.Errorf("binary %v, but the script is %q", c.want.Binary, r.Script)
			}
		})
	}
	for name, c := range map[string]struct{ args, want string }{
		"a file that names itself":       {"-@ loop s", `loop:1: "-@ loop": files of options are nested more than 10 deep`},
		"a file of options is missing":   {"-@ gone s", `command line: "-@ gone": cannot read the file: open gone: file does not exist`},
		"a refused option in a file":     {"-@ qrsh s", `qrsh:2: "-inherit": the option is not supported here: it would change how the job runs, and cannot be honoured`},
		"the script is missing":          {"gone", `command line: "gone": cannot read the script: open gone: file does not exist`},
		"nothing on standard input":      {"", `command line: no script or command is named, and standard input is empty`},
		"a binary without a command":     {"-b y", `command line: -b y needs a command`},
		"unknown option":                 {"-hard_resource x s", `command line: "-hard_resource": unknown option; did you mean "-hard"?`},
		"unknown option like none":       {"-xyzzy s", `command line: "-xyzzy": unknown option`},
		"a value is missing":             {"-pe smp", `command line: "-pe smp": a value is missing, expected -pe pe_name n[-[m]]|[-]m,...`},
		"an instance without a strategy": {"-binding env", `command line: "-binding env": a value is missing, expected -binding [set|env|pe] strategy`},
		"a refused option":               {"-inherit s", `command line: "-inherit": the option is not supported here: it would change how the job runs, and cannot be honoured`},
		"a pty":                          {"-pty y s", `command line: "-pty y": the option is not supported here: it would change how the job runs, and cannot be honoured`},
		"a name from a script with a digit": {
			"-b y /usr/bin/7z", `command line: "/usr/bin/7z": the job would be named after it, but the name "7z" begins with a digit; give it a name with -N`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(Input{Args: strings.Fields(c.args), ReadFile: read, ReadStdin: func() ([]byte, error) { return nil, nil }})
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %v", err, c.want)
			}
			if e := new(Error); !errors.As(err, &e) {
				t.Errorf("%T is no *Error", err)
			}
		})
	}
	_, err := Parse(Input{Args: []string{"gone"}, ReadFile: read})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

func TestTakeOwn(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ args, rest, taken string }{
		"before and between the others":     {"--conf dir -N n --keep -j y s", "-N n -j y s", "--conf dir --keep"},
		"those of the job are its own":      {"--keep s --conf x", "s --conf x", "--keep"},
		"behind two dashes":                 {"-N n -- --keep", "-N n -- --keep", ""},
		"behind one":                        {"--keep - --keep", "- --keep", "--keep"},
		"a value that looks like one":       {"-N --keep -o --conf s", "-N --keep -o --conf s", ""},
		"a value that may be left out":      {"-t 1-3 --keep -pe p 3 --conf x s", "-t 1-3 -pe p 3 s", "--keep --conf x"},
		"unknown ones stay":                 {"--config dir s", "--config dir s", ""},
		"behind an unknown one they do":     {"-bogus --keep s", "-bogus --keep s", ""},
		"an option without its value":       {"--keep -N", "-N", "--keep"},
		"one that takes more than there is": {"--conf", "", "--conf"},
		"nothing":                           {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var taken []string
			rest, err := TakeOwn(Qsub, strings.Fields(c.args), func(args []string) (int, error) {
				n := map[string]int{"--conf": 2, "--keep": 1}[args[0]]
				taken = append(taken, args[:min(n, len(args))]...)
				return n, nil
			})
			if err != nil || strings.Join(rest, " ") != c.rest || strings.Join(taken, " ") != c.taken {
				t.Errorf("%q without %q, %v; expected %q without %q", rest, taken, err, c.rest, c.taken)
			}
		})
	}
	if _, err := TakeOwn(Qsub, []string{"--x"}, func([]string) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestRanksOfSources(t *testing.T) {
	in := Input{
		RequestFiles: []File{
			{"cluster", []byte("-N cluster -l a=1,b=1,c=1,d=1 -v X=1,Y=1 -o /1 -m b -q one -A one")},
			{"~/.sge_request", []byte("-N user -l b=2,c=2,d=2\n-v X=2\n-m e")},
			{"./.sge_request", []byte("-N cwd -l c=3,d=3")},
		},
		ReadFile: files(map[string]string{"s": "#$ -N script -l d=4 -q two -A two\n"}),
		Args:     []string{"-v", "Y=5", "-o", "h:/5", "s"},
	}
	r, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(r.Name, r.Resources, r.Env, r.Output, r.MailOptions == job.MailAtBegin|job.MailAtEnd, r.Noted)
	want := "script[a=1 b=2 c=3 d=4] [TERM= X=2 Y=5] [/1 h:/5] true [{-q one false} {-q two false} {-A two false}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, c := range map[string]struct {
		args, script, want string
	}{
		"-N on the command line":   {"-N cl s", "", "cl[a=1 b=2 c=3 d=3]"},
		"-clear on the line":       {"-clear s", "#$ -N script", "s[]"},
		"-clear in the script":     {"-l z=1 s", "#$ -N x\n#$ -clear -l y=1", "s[y=1 z=1]"},
		"-b y keeps from scanning": {"-b y s", "#$ -N script", "cwd[a=1 b=2 c=3 d=3]"},
	} {
		in.Args = strings.Fields(c.args)
		in.ReadFile = files(map[string]string{"s": c.script})
		r, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := r.Name + fmt.Sprint(r.Resources); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestRequestFiles(t *testing.T) {
	run := func(text string, args ...string) (*Request, error) {
		return Parse(Input{
			RequestFiles: []File{{"~/.sge_request", []byte(text)}},
			ReadFile:     files(map[string]string{"s": "%% -N scanned\n#$ -N dollar\n"}),
			Args:         append(args, "s"),
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"comments and empty lines":              {"# x\n\n   \n  # -N y\n-j y # -N z", "dollar"},
		"options that qsub doesn't know":        {"-verbose -inherit -nostdin\n-display :0", "dollar"},
		"a prefix in a file is ignored":         {"-C %%", "dollar"},
		"-b y in a file keeps from scanning":    {"-b y", "s"},
		"-b in a file is overridden":            {"-b y\n-b n", "dollar"},
		"the last line needs no end":            {"-N x\n-b y", "x"},
		"lines may end with a carriage return":  {"-b y\r\n-N crlf\r\n", "crlf"},
		"options of another command take words": {"-display -N\n", "dollar"},
	} {
		r, err := run(c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if r.Name != c.want {
			t.Errorf("%s: name %q, want %q", name, r.Name, c.want)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"a command in a file":    {"# x\n-j y script arg", `~/.sge_request:2: "script": expected an option; a command and its arguments belong on the command line`},
		"two dashes in a file":   {"-- a", `~/.sge_request:1: "--": expected an option; a command and its arguments belong on the command line`},
		"an unknown option":      {"\n\n-bogus", `~/.sge_request:3: "-bogus": unknown option; did you mean "-b"?`},
		"values end at the line": {"-l\nh_rt=1", `~/.sge_request:1: "-l": a value is missing, expected -l resource=value,...`},
		"-help in a file":        {"-help", `~/.sge_request:1: "-help": it is only allowed on the command line`},
	} {
		if _, err := run(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, c.want)
		}
	}
}

func TestBinaryOfTheCommandLineOutranksThatOfFiles(t *testing.T) {
	in := Input{
		RequestFiles: []File{{"r", []byte("-b y")}},
		ReadFile:     files(map[string]string{"s": "#$ -N scanned"}),
		Args:         []string{"-b", "n", "s"},
	}
	if r, err := Parse(in); err != nil || r.Binary || r.Name != "scanned" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEverythingAtOnce(t *testing.T) {
	r, err := parse(strings.Fields("-terse -m e s a"),
		`#$ -N "my_job" -A acct -P proj -p -5 # all of it`,
		`#$ -S /bin/bash -b n -shell n -cwd -j y`,
		`#$ -o out/$JOB_ID,node1:/tmp/o -e :/a:b -i ~/in`,
		`#$ -v A,B=2=3 -V`,
		`#$ -t 2-10:2 -tc 3 -pe mpi* 2-4,8- -binding pe striding:2:1:0,1`,
		`#$ -notify -r y -ckpt ck -c sm -c 0:5:0 -pty n`,
		`#$ -m b,a -M me@x,you@y`,
		`#$ -l h_rt=1:0:0,h_vmem=2G,mem_free=1G -soft -l h_cpu=5,arch=a -q all.q -now no`,
		`#$ -ac k=v,l -ac m=1 -dc l -hold_jid 1,x -w n`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Request{
		Terse: true, Command: "s", Script: r.Script, Args: []string{"a"}, NoShell: true,
		Shell: []HostPath{{"", "/bin/bash"}}, Name: "my_job", Account: "acct", Project: "proj", Priority: -5,
		Output: []HostPath{{"", "out/$JOB_ID"}, {"node1", "/tmp/o"}}, Error: []HostPath{{"", "/a:b"}}, Input: []HostPath{{"", "~/in"}},
		Join: true, WorkingDir: "/a dir",
		Env:     []Variable{{"TERM", ""}, {"HOME", "/home/u"}, {"A", "from env"}, {"B", "2=3"}},
		Context: []Variable{{"k", "v"}, {"m", "1"}},
		Array:   &Array{2, 10, 2}, PE: &ParallelRequest{"mpi*", []SlotRange{{2, 4}, {8, MaxSlots}}},
		Binding: &Binding{Instance: BindPE, Strategy: Striding, Amount: 2, Step: 1, Start: &Core{0, 1}},
		Notify:  true, Rerun: job.Yes, PTY: job.No,
		Checkpoint: "ck", CheckpointWhen: "ms", CheckpointInterval: 5 * time.Minute,
		Mail: []string{"me@x", "you@y"}, MailOptions: job.MailAtBegin | job.MailAtAbort | job.MailAtEnd,
		Resources: []ResourceRequest{
			{"h_rt", "1:0:0", false},
			{"h_vmem", "2G", false},
			{"mem_free", "1G", false},
			{"h_cpu", "5", true},
			{"arch", "a", true},
		},
		Queues: []QueueRequest{{"all.q", true}}, PrecedingJobs: []string{"1", "x"}, TaskLimit: 3,
		Noted: []Note{
			{"-A", "acct", false},
			{"-P", "proj", false},
			{"-tc", "3", false},
			{"-soft", "", false},
			{"-q", "all.q", true},
			{"-ac", "k=v,l", false},
			{"-ac", "m=1", false},
			{"-dc", "l", false},
			{"-hold_jid", "1,x", false},
		},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	wantLimits := []LimitRequest{{job.RT, true, 3600}, {job.Vmem, true, 2 << 30}}
	if diff := cmp.Diff(wantLimits, r.LimitRequests()); diff != "" {
		t.Error(diff)
	}
	if got, want := strings.Join(r.Notice(), " "), "-A -P -tc -soft -q -ac -dc -hold_jid -l mem_free -l h_cpu -l arch"; got != want {
		t.Errorf("notice:\ngot  %s\nwant %s", got, want)
	}
}

func TestDryRunAndHelp(t *testing.T) {
	for args, want := range map[string]bool{
		"s": false, "-verify s": true, "-w v s": true, "-w p s": true, "-w e s": false, "-w v -w n s": false, "-verify -w n s": true, "-verify -clear s": false,
	} {
		r, err := parse(strings.Fields(args))
		if err != nil || r.DryRun != want || r.Help {
			t.Errorf("%q: %+v, %v", args, r, err)
		}
	}
	if r, err := parse([]string{"-t", "0", "-help"}); err != nil || !r.Help {
		t.Errorf("-help: %+v, %v", r, err)
	}
}

func TestCwd(t *testing.T) {
	for args, want := range map[string]string{
		"s": "", "-cwd s": "/a dir", "-wd /x -cwd s": "/a dir", "-cwd -wd /x s": "/x", "-wd ~/x s": "~/x", "-wd $HOME s": "$HOME",
	} {
		r, err := parse(strings.Fields(args))
		if err != nil || r.WorkingDir != want {
			t.Errorf("%q: %+v, %v", args, r, err)
		}
	}
	in := Input{Args: []string{"-cwd", "-b", "y", "x"}, Cwd: "/a$HOME"}
	r, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (PathVars{Home: "/h"}).Expand(r.WorkingDir); got != in.Cwd || err != nil {
		t.Errorf("%q became %q, %v", in.Cwd, got, err)
	}
}

// TestBadValues checks each option with invalid values, which the error must name.
func TestBadValues(t *testing.T) {
	long := strings.Repeat("x", 513)
	for option, values := range map[string][]string{
		"-a":           {"", "1224120", "13241200", "12321200", "12242500", "12241260", "12241200.61", "12241200.5", "x", "1224120x", "12241200.", "1312241200 "},
		"-ac":          {"", ",", "=x", "a\nb=c"},
		"-ar":          {"", "-1", "x", "99999999999"},
		"-A":           {"", "a b", "a/b", "a:b", "a@b", `a\b`, "a*", "a?", "é", "none", long},
		"-b":           {"", "ja", "1", "true", "yess"},
		"-binding":     {"", "x", "linear:x"},
		"-c":           {"", "S", "sq", "xyz", "0", "1:2", "1:2:3:4", "-5", "INFINITY", "99999999999"},
		"-ckpt":        {"", "a b", "a/b", "%"},
		"-cwd":         nil,
		"-dc":          {"", ","},
		"-e":           {"", ",", "h:", ":", "/a:b", "/" + strings.Repeat("x", 4095)},
		"-hold_jid":    {"", ","},
		"-hold_jid_ad": {""},
		"-i":           {""},
		"-j":           {"", "ja"},
		"-js":          {"", "-3", "1.5"},
		"-jsv":         {""},
		"-l":           {"", ",", "=x", "h_rt", "h_rt=", "h_rt=1:2:3:4", "h_rt=1:2", "h_rt=-5", "h_vmem=-1", "h_vmem=1GB", "h_rt>=5", "a!=5", "mem=", "mem=a\nb", "a=1,h_fsize=x", "h_cpu=99999999999999999999"},
		"-m":           {"", ",", "x", "BEA", "be,x"},
		"-M":           {"", ",", "@x", "-oQ/tmp", "a\nb@c"},
		"-masterq":     {""},
		"-now":         {"", "maybe"},
		"-N":           {"", "1a", "0a", "9a", "a b", "a/b", "a:b", "a@b", `a\b`, "a*", "a?", "a\nb", "a\tb", "é", "none", "Template", "ALL", long, "a\x00b", "a\x7fb"},
		"-o":           {"", ":", "a,h:"},
		"-P":           {"", "a b", "a%b"},
		"-p":           {"", "x", "1.5", "1025", "-1024", "0x10"},
		"-pty":         {"", "x"},
		"-q":           {"", ","},
		"-R":           {"x"},
		"-r":           {"x", ""},
		"-S":           {"", ","},
		"-sc":          {""},
		"-shell":       {"x"},
		"-sync":        {"z", "r", "l"},
		"-t":           {"", "0", "5-1", "1-10:0", "0-5", "1:2", "-5", "5-", "1-n", "1,2", "1-5:", "1--5", "1-5x", "0x5", "1-5:-1", "1-2147483648", "99999999999999999999"},
		"-tc":          {"", "-1", "x"},
		"-v":           {"", ",", "=x", "A=\x00", "A\nB=c", "A=" + strings.Repeat("x", 131072)},
		"-w":           {"", "x", "E"},
		"-wd":          {"", "rel", "./x", "/" + strings.Repeat("x", 4095)},
		"-@":           {"", "gone"},
	} {
		for _, v := range values {
			_, err := parse([]string{option, v, "s"})
			e := new(Error)
			if !errors.As(err, &e) {
				t.Errorf("%s %.40q: got %v", option, v, err)
				continue
			}
			if e.Where != CommandLine || e.Option != option || e.Problem == "" {
				t.Errorf("%s %.40q: %#v", option, v, e)
			}
			if len(v) < 100 && !strings.ContainsRune(v, 0) && e.Value != v {
				t.Errorf("%s %q: the error has %q", option, v, e.Value)
			}
		}
	}
	for _, v := range []string{"0", "4-2", "0-3", "", "a", "4x", "-", "--", "2:4", "1-2-3", "1-n", "infinity", "99999999", ","} {
		if _, err := parse([]string{"-pe", "smp", v, "s"}); err == nil {
			t.Errorf("-pe smp %q passed", v)
		}
	}
	for _, v := range []string{"", "a b", "a/b", "a@b", long} {
		if _, err := parse([]string{"-pe", v, "4", "s"}); err == nil {
			t.Errorf("-pe %.40q 4 passed", v)
		}
	}
	for _, arg := range []string{"a\x00b", strings.Repeat("x", 131072)} {
		if _, err := parse([]string{"s", "ok", arg}); err == nil || !strings.Contains(err.Error(), "argument 2 of the job") {
			t.Errorf("argument %.20q: %v", arg, err)
		}
		if _, err := parse([]string{arg}); err == nil {
			t.Errorf("command %.20q passed", arg)
		}
	}
}

func TestGoodValues(t *testing.T) {
	for option, values := range map[string][]string{
		"-a":   {"12241200", "2412241200", "202412241200", "202412241200.30", "02291200"},
		"-A":   {"1a", "a%b", "a[b", strings.Repeat("x", 512)},
		"-c":   {"n", "s", "sx", "smxr", "300", "0x10", "::5", "1:2:3"},
		"-l":   {"h_rt=INFINITY", "h_vmem=1.5G", "h_rt=0x10", "h_rt=::5", "a", "a=(x|y)", "a=x=y", "a=1, b=2", "h_descriptors=5"},
		"-m":   {"n", "bea", "b,e,a", "nb"},
		"-M":   {"a", "a@b", "a@b,c@d"},
		"-N":   {"a", "-x", "a,b", `a"b`, "a'b", "a%b", "a$b", "a[b", "a(b", "a|b", ".x", "+x"},
		"-o":   {"/x", "rel", "h:/x", ":/a:b", "h:p:q", "~/x", "$HOME/x y", "/x,/y"},
		"-p":   {"0", "+5", " 5", "1024", "-1023"},
		"-pty": {"n", "NO"},
		"-t":   {"1", "5", "1-5", "1-10:2", "2-2:5", "1-5:9", "01-05", "1-2147483647"},
		"-v":   {"A", "NOSUCH", "A=", "A=b=c", "A,,B", "BASH_FUNC_f%%=() { :; }", "A=x\ny"},
		"-w":   {"e", "w", "n", "p", "v"},
	} {
		for _, v := range values {
			if _, err := parse([]string{option, v, "s"}); err != nil {
				t.Errorf("%s %q: %v", option, v, err)
			}
		}
	}
}

func TestAccumulation(t *testing.T) {
	for args, want := range map[string]string{
		"-m b -m e s":                        "mail bits 1572864",
		"-m b -m n s":                        "mail bits 0",
		"-m n -m e s":                        "mail bits 1048576",
		"-M a@h,b@h -M c@h -M d@i s":         "mail [c@h d@i]",
		"-M a -M b s":                        "mail [b]",
		"-o /a,H:/d -o h:/c s":               "output [/a h:/c]",
		"-l h_rt=1,s_rt=5 -l h_rt=2 s":       "resources [s_rt=5 h_rt=2]",
		"-l a=1 -soft -l a=2 -hard -l b=3 s": "resources [a=1 a=2 b=3]",
		"-q a -soft -q b s":                  "noted [{-q a false} {-soft  false} {-q b true}]",
		"-now y -now n s":                    "noted []",
		"-A a -A b s":                        "noted [{-A b false}]",
		"-ac a=1 -sc b=2,c -dc b -ac c=3 s":  "context [c=3]",
		"-V -v HOME=x s":                     "env [TERM= HOME=x A=from env]",
		"-v HOME=x -V s":                     "env [TERM= HOME=x A=from env]",
		"-v A,TERM=vt100,NOSUCH s":           "env [TERM=vt100 A=from env NOSUCH=]",
		"-shell n -shell y s":                "noshell false",
		"-r n -r y s":                        "rerun 1",
		"-r n s":                             "rerun 0",
		"s":                                  "rerun 2",
		"-hard -soft s":                      "noted [{-hard  false} {-soft  false}]",
		"-pty n s":                           "noted []",
		"-display :0 -verbose -ot 5 -nostdin -h -dl " + "12241200 s": "noted [{-display :0 false} {-verbose  false} {-ot 5 false} {-nostdin  false} {-h  false} {-dl 12241200 false}]",
		"-soft -l h_rt=1 -hard -l h_cpu=5 s":                         "limits [{cpu true 5}]",
		"-soft -hard -soft -l h_rt=1 s":                              "limits []",
		"-l h_descriptors=5,s_fsize=1K s":                            "limits [{fsize false 1024}]",
	} {
		r, err := parse(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		what, _, _ := strings.Cut(want, " ")
		got := map[string]string{
			"mail": fmt.Sprint("mail ", r.Mail), "output": fmt.Sprint("output ", r.Output), "resources": fmt.Sprint("resources ", r.Resources),
			"noted": fmt.Sprint("noted ", r.Noted), "context": fmt.Sprint("context ", r.Context), "env": fmt.Sprint("env ", r.Env),
			"noshell": fmt.Sprint("noshell ", r.NoShell), "limits": fmt.Sprint("limits ", r.LimitRequests()), "rerun": fmt.Sprint("rerun ", int(r.Rerun)),
		}[what]
		if strings.HasPrefix(want, "mail bits") {
			got = fmt.Sprint("mail bits ", int(r.MailOptions))
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", args, got, want)
		}
	}
}

// TestReadOptions checks that a server has the script of a job, and no access to the submitter's
// files.
func TestReadOptions(t *testing.T) {
	in := Input{
		Args:        []string{"-@", "opts", "s"},
		ReadFile:    func(string) ([]byte, error) { return []byte("#$ -N script\n"), nil },
		ReadOptions: func(name string, _ bool) ([]byte, error) { return []byte("-P " + name + "\n"), nil },
	}
	r, err := Parse(in)
	if err != nil || r.Name != "script" || r.Project != "opts" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNestedOptionFiles checks that only a name on the command line was chosen by the user who typed
// it.
func TestNestedOptionFiles(t *testing.T) {
	read := map[string]bool{}
	_, err := Parse(Input{
		Args:         []string{"-@", "typed", "s"},
		RequestFiles: []File{{"defaults", []byte("-@ of-defaults\n")}},
		ReadFile:     func(string) ([]byte, error) { return []byte("#$ -@ of-script\n"), nil },
		ReadOptions: func(name string, nested bool) ([]byte, error) {
			read[name] = nested
			if name == "typed" {
				return []byte("-@ of-typed\n"), nil
			}
			return nil, nil
		},
	})
	want := map[string]bool{"typed": false, "of-typed": true, "of-script": true, "of-defaults": true}
	if err != nil || !maps.Equal(read, want) {
		t.Errorf("%v, %v; expected %v", read, err, want)
	}
}
