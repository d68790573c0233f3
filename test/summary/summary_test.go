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
