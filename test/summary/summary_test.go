package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	type want struct {
		passed, failed, skipped int
		output                  string
	}
	tests := map[string]struct {
		events string
		want   want
	}{
		"a test that passes is one line of its package": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`,
			want: want{passed: 1, output: "ok  \tp\t0.1s\n"},
		},
		"a skip is shown with its reason": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: needs root: uid is 1000\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`,
			want: want{skipped: 1, output: "--- SKIP: TestA: needs root: uid is 1000\nok  \tp\t0.1s\n"},
		},
		"a subtest that fails is counted once": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x/y"}
{"Action":"output","Package":"p","Test":"TestA/x/y","Output":"    a_test.go:7: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA/x/y"}
{"Action":"run","Package":"p","Test":"TestA/z"}
{"Action":"pass","Package":"p","Test":"TestA/z"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`,
			want: want{passed: 1, failed: 1, output: "    a_test.go:7: wrong\nFAIL\tp\t0.1s\n"},
		},
		"a test that fails after its subtests passed is counted": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			want: want{passed: 1, failed: 1},
		},
		"a package that does not build is a failure": {
			events: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"a.go:1:1: no\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`,
			want: want{failed: 1, output: "a.go:1:1: no\nFAIL\tp [build failed]\n"},
		},
		"a test in which the process dies is named": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"killed\n"}
{"Action":"fail","Package":"p"}
`,
			want: want{failed: 1, output: "--- FAIL: TestA (did not end)\nkilled\n"},
		},
		"an attribute is shown": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"attr","Package":"p","Test":"TestA","Key":"jobs","Value":"63"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
			want: want{passed: 1, output: "TestA: jobs 63\n"},
		},
		"a package without tests says nothing": {
			events: `{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p"}
`,
		},
		"what is no event passes through": {
			events: "go: downloading x\n",
			want:   want{output: "go: downloading x\n"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out, false)
			if err := s.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			got := want{s.passed, s.failed, s.skipped, out.String()}
			if got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestAgain checks that only failures of single tests are run again, and that only those that then
// pass count as passed.
func TestAgain(t *testing.T) {
	const (
		begin = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x.y"}
`
		fails = `{"Action":"fail","Package":"p","Test":"TestA/x.y"}
{"Action":"fail","Package":"p","Test":"TestA"}
`
		end = `{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`
		passes = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"pass","Package":"p"}
`
		race = `{"Action":"output","Package":"p","Test":"TestA/x.y","Output":"WARNING: DATA RACE\n"}
`
		pattern = `^TestA$/^x\.y$`
	)
	for name, tt := range map[string]struct {
		events, second string
		most           int
		asked          string
		passed, failed int
	}{
		"it passes":                          {begin + fails + end, passes, 1, pattern, 1, 0},
		"it fails again":                     {begin + fails + end, begin + fails + end, 1, pattern, 0, 1},
		"it is not there":                    {begin + fails + end, "", 1, pattern, 0, 1},
		"too many failed":                    {begin + fails + end, passes, 0, "", 0, 1},
		"nothing failed":                     {passes, passes, 3, "", 1, 0},
		"a data race":                        {begin + race + fails + end, passes, 3, "", 0, 1},
		"the process died after a failure":   {begin + fails + `{"Action":"fail","Package":"p"}` + "\n", passes, 3, "", 0, 1},
		"a package did not build":            {`{"Action":"fail","Package":"p"}` + "\n", passes, 3, "", 0, 1},
		"another package did not build, too": {begin + fails + end + `{"Action":"fail","Package":"q"}` + "\n", passes, 3, "", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out, false)
			if err := s.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			asked := ""
			s.again(tt.most, func(pkg, pattern string) *summary {
				if pkg != "p" {
					t.Errorf("tests of %q are run", pkg)
				}
				asked = pattern
				second := newSummary(&out, false)
				if err := second.read(strings.NewReader(tt.second)); err != nil {
					t.Fatal(err)
				}
				return second
			})
			if asked != tt.asked || s.passed != tt.passed || s.failed != tt.failed {
				t.Errorf("%d passed, %d failed, %q run again; want %d, %d, %q", s.passed, s.failed, asked, tt.passed, tt.failed, tt.asked)
			}
			if named := strings.Contains(out.String(), "--- AGAIN: p TestA/x.y"); named != (tt.asked != "" && tt.failed == 0) {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}
