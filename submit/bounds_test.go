package submit

import (
	"strings"
	"testing"
)

// TestBounds checks that the options that a master reads are limited in number and size, wherever they
// are. The text of a script is not.
func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		files map[string]string
		want  string
	}{
		"a long command line":  {args: append(strings.Fields(strings.Repeat("-h ", mostOptions+1)), "job"), want: "more than 65536 options"},
		"many lines":           {files: map[string]string{"job": strings.Repeat("#$ -h\n", mostOptions+1)}, want: "more than 65536 options"},
		"a long line":          {files: map[string]string{"job": "#$" + strings.Repeat(" -h", mostOptionLine/3+1) + "\n"}, want: "the line has 1048578 bytes"},
		"zeros":                {args: []string{"-@", "zeros", "job"}, files: map[string]string{"job": "", "zeros": "-h\n" + strings.Repeat("\x00", 100)}, want: "zeros:2: it contains a zero byte: it is not a text file"},
		"as many as may be":    {files: map[string]string{"job": strings.Repeat("#$ -h\n", mostOptions)}},
		"a long script":        {files: map[string]string{"job": strings.Repeat("# -h\n", mostOptions+1) + strings.Repeat("x", 2*mostOptionLine)}},
		"files of files":       {args: []string{"-@", "0", "job"}, files: nested(8, 8), want: "more than 65536 options"},
		"large files of files": {args: []string{"-@", "0", "job"}, files: map[string]string{"0": strings.Repeat("-@ 1\n", 1000), "1": strings.Repeat("\n", 100_000), "job": ""}, want: "more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.args == nil {
				c.args = []string{"job"}
			}
			_, err := Parse(Input{Args: c.args, Master: true, Cwd: "/", ReadFile: func(name string) ([]byte, error) { return []byte(c.files[name]), nil }})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.200v, want %q", err, c.want)
			}
		})
	}
}

// nested returns files of options, each of which names the next one several times.
func nested(depth, times int) map[string]string {
	files := map[string]string{"job": ""}
	for i := range depth {
		files[string(rune('0'+i))] = strings.Repeat("-@ "+string(rune('0'+i+1))+"\n", times)
	}
	return files
}
