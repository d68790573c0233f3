package jobdir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samples returns config files written by 8.1.9.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/config/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	m := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m[filepath.Base(f)] = b
	}
	return m
}

func TestSampleConfigsRoundTrip(t *testing.T) {
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			if name == "newline-arg" {
				return // refused, see TestNewlineInArgumentIsRefused
			}
			d, err := ParseConfig("config", data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := FormatConfig(d)
			if err != nil {
				t.Fatal(err)
			}
			want := data
			if name == "exparams" || name == "exit99" {
				// If only one value of a pair is defined, the other becomes the same.
				want = bytes.NewBufferString(strings.NewReplacer("s_maxproc=UNDEFINED", "s_maxproc=5000",
					"s_memorylocked=UNDEFINED", "s_memorylocked=1M", "s_locks=UNDEFINED", "s_locks=100").Replace(string(want))).Bytes()
			}
			if g, w := string(got), string(want); g != w {
				t.Errorf("got\n%s", firstDifference(g, w))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return g[i] + "\nwant\n" + strings.Join(w[min(i, len(w)):min(i+1, len(w))], "")
		}
	}
	return "a part of it"
}

func TestNewlineInArgumentIsRefused(t *testing.T) {
	_, err := ParseConfig("config", samples(t)["newline-arg"])
	var se *SyntaxError
	if !errors.As(err, &se) || se.Line != 88 || se.Key != "line2" {
		t.Fatal(err)
	}
}
