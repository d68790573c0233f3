package submit

import (
	"errors"
	"strings"
	"testing"
)

var vars = PathVars{
	Home: "/home/u", User: "u", JobID: 124, JobName: "na$JOB_IDme", Host: "Node1.example.org", Cwd: "/cwd",
	HomeOf: func(user string) (string, error) {
		switch user {
		case "other":
			return "/home/other", nil
		case "homeless":
			return "", nil
		}
		return "", errors.New("no such user")
	},
}

func TestExpand(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"/x":                     "/x",
		"~":                      "/home/u",
		"~/":                     "/home/u/",
		"~/x":                    "/home/u/x",
		"~u/x":                   "/home/u/x",
		"~other":                 "/home/other",
		"~other/x/~":             "/home/other/x/~",
		"/x/~":                   "/x/~",
		"$HOME/x":                "/home/u/x",
		"$HOMEx":                 "/home/ux",
		"/$USER.$JOB_ID":         "/u.124",
		"/$JOB_IDx":              "/124x",
		"/$JOB_NAME":             "/na$JOB_IDme", // inserted values are not expanded again
		"/$HOSTNAME":             "/Node1.example.org",
		"/$TASK_ID":              "/0",
		"/$JOB":                  "/$JOB",
		"/$FOO$":                 "/$FOO$",
		"/${HOME}":               "/${HOME}",
		"/$$JOB_ID":              "/$JOB_ID",
		"/$$$JOB_ID":             "/$124",
		"/$job_id":               "/$job_id",
		"o2$JOB_IDx$$JOB_ID$FOO": "o2124x$JOB_ID$FOO", // tested, as one
		"~/$JOB_ID~":             "/home/u/124~",
	} {
		if got, err := vars.Expand(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"~nobody/x":  "no such user",
		"~homeless":  `the user "homeless" has no home directory here`,
		"~$JOB_ID/x": "no such user",
	} {
		if got, err := vars.Expand(in); err == nil || err.Error() != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	none := PathVars{User: "u"}
	for _, in := range []string{"~/x", "/x/$HOME", "~other"} {
		if got, err := none.Expand(in); err == nil {
			t.Errorf("%q without homes: %q", in, got)
		}
	}
}

func TestExpandPath(t *testing.T) {
	for name, c := range map[string]struct{ list, want string }{
		"an absolute path":                      {"/x", "/x"},
		"a relative path":                       {"out/x", "/cwd/out/x"},
		"this host's entry wins":                {"/all,node1.example.org:/mine", "/mine"},
		"hosts are compared without case":       {"NODE1.EXAMPLE.ORG:/mine", "/mine"},
		"hosts are compared without domain":     {"node1:/mine", "/mine"},
		"but not where both have one":           {"node1.other.org:/mine,/all", "/all"},
		"the first without a host":              {"node2:/no,/first,/second", "/first"},
		"the first of this host":                {"node1:/a,node1:/b", "/a"},
		"only other hosts":                      {"node2:/no,node3:/no", ""},
		"a colon in the path":                   {":/a:b", "/a:b"},
		"a colon in the path after a host":      {"node1:/a:b", "/a:b"},
		"pseudo variables":                      {"$USER/$JOB_ID", "/cwd/u/124"},
		"a home that makes it absolute":         {"~other/x", "/home/other/x"},
		"a comma within quotes, which stay":     {`/a"b,c"`, `/a"b,c"`},
		"a variable in front of a rooted path":  {"$HOME", "/home/u"},
		"a dot is only a relative path":         {"./x", "/cwd/./x"},
		"other users' entries are not expanded": {"node2:~nobody/x,/y", "/y"},
	} {
		list, err := ParsePaths(c.list)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := ExpandPath(list, vars); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	if got, err := ExpandPath(nil, vars); got != "" || err != nil {
		t.Errorf("no list: %q, %v", got, err)
	}
	root := vars
	root.Cwd = "/"
	if got, _ := ExpandPath([]HostPath{{"", "x"}}, root); got != "/x" {
		t.Errorf("in the root directory: %q", got)
	}
	root.Cwd = ""
	if got, err := ExpandPath([]HostPath{{"", "x"}}, root); err == nil {
		t.Errorf("without a directory: %q", got)
	}
	long := vars
	long.JobName = strings.Repeat("x", 500)
	if got, err := ExpandPath([]HostPath{{"", strings.Repeat("/$JOB_NAME", 9)}}, long); err == nil {
		t.Errorf("too long: %d bytes", len(got))
	}
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/x", "h:/x,:/a:b,y", "~/$HOME", "~other/$JOB_IDx$$", "node1:$", `"a,b"`, "$HOSTNAME$HOM"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParsePaths(s)
		if err != nil {
			return
		}
		for _, p := range list {
			again, err := ParsePaths(p.String())
			if err != nil || len(again) != 1 || again[0] != p {
				t.Fatalf("%q: %+v printed as %q, read as %+v, %v", s, p, p, again, err)
			}
		}
		got, err := ExpandPath(list, vars)
		if err == nil && got != "" && got[0] != '/' {
			t.Fatalf("%q: %q is not absolute", s, got)
		}
	})
}

// TestFiles checks directory and streams of a request, with a known and an unknown home directory.
func TestFiles(t *testing.T) {
	paths := func(s string) []HostPath { return []HostPath{{Path: s}} }
	for name, c := range map[string]struct {
		request Request
		home    string
		want    Files
		fails   bool
	}{
		"nothing":                      {Request{}, "/home/a", Files{Dir: "/home/a"}, false},
		"an unknown home directory":    {Request{}, "~a", Files{Dir: "~a"}, false},
		"a relative path below it":     {Request{Output: paths("x")}, "~a", Files{Dir: "~a", Streams: [3]string{"", "~a/x", ""}}, false},
		"$HOME that is unknown":        {Request{Error: paths("$HOME/x")}, "~a", Files{Dir: "~a", Streams: [3]string{"", "", "~a/x"}}, false},
		"a name with a tilde":          {Request{Output: paths("$JOB_NAME")}, "/home/a", Files{Dir: "/home/a", Streams: [3]string{"", "/home/a/~n", ""}}, false},
		"-wd":                          {Request{WorkingDir: "/w", Input: paths("in"), Output: paths("/o")}, "~a", Files{Dir: "/w", Streams: [3]string{"/w/in", "/o", ""}}, false},
		"all tasks of an array":        {Request{Output: paths("$TASK_ID")}, "/h", Files{Dir: "/h", Streams: [3]string{"", "/h/$TASK_ID", ""}}, false},
		"a relative working directory": {Request{WorkingDir: "w"}, "/h", Files{}, true},
		"another one's home, unknown":  {Request{WorkingDir: "~ab/x"}, "~a", Files{}, true},
	} {
		got, err := c.request.Files(PathVars{Home: c.home, User: "a", JobName: "~n", TaskID: AnyTask})
		if (err != nil) != c.fails || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}
