// Package script reads and writes jobs.txt, the script of a recorded case: who
// typed what, what was answered, how long was waited, which load values changed and
// when the state was printed.
//
//	alice: qsub -b y -N a1 /bin/sleep 900
//	   -> Your job 1 ("a1") has been submitted
//	# load value n1:np_load_avg changed to 0.9
//	# wait 5 s
//	root: qmod -e '*'
//	# capture output/final
//
// Other comments say something to the reader only. What stands in parentheses
// behind a command, after three blanks, is a remark, too.
//
// The package is for tests.
package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Line is one step of a script. Exactly one of Command, Wait, Capture, Load and
// Comment is set.
type Line struct {
	User    string // who types the command
	Command string // for a shell
	Remark  string // what stands in parentheses behind the command
	Answer  []string

	Wait    time.Duration
	Capture string // the name of the step: a folder below output
	Load    *Load
	Comment string // without "# "
}

// Load is a change of a load value of a host.
type Load struct{ Host, Attribute, Value string }

var (
	waitLine    = regexp.MustCompile(`^wait (\d+) s$`)
	captureLine = regexp.MustCompile(`^capture output/(\S+)$`)
	loadLine    = regexp.MustCompile(`^(?:load value )?([^:\s]+):([^:\s]+) changed to (\S+)$`)
	commandLine = regexp.MustCompile(`^([a-z]\w*): (\S.*?)(?:   \((.+)\))?$`)
)

const answerMark = "   ->"

// maxWait is more than any script waits; a longer wait is a comment.
const maxWait = 1 << 20 // seconds

// Parse reads a script. A line that is none is an error.
func Parse(text string) ([]Line, error) {
	var lines []Line
	number := 0
	for raw := range strings.Lines(text) {
		number++
		raw = strings.TrimSuffix(raw, "\n")
		if answer, ok := strings.CutPrefix(raw, answerMark); ok && len(lines) > 0 && lines[len(lines)-1].Command != "" {
			last := &lines[len(lines)-1]
			last.Answer = append(last.Answer, strings.TrimPrefix(answer, " "))
			continue
		}
		if comment, ok := strings.CutPrefix(raw, "#"); ok {
			lines = append(lines, parseComment(strings.TrimSpace(comment)))
			continue
		}
		m := commandLine.FindStringSubmatch(raw)
		if m == nil {
			return nil, fmt.Errorf("cannot read line %d of the script: %q is neither a command, an answer nor a comment", number, raw)
		}
		lines = append(lines, Line{User: m[1], Command: m[2], Remark: m[3]})
	}
	return lines, nil
}

func parseComment(text string) Line {
	if m := waitLine.FindStringSubmatch(text); m != nil {
		seconds, err := strconv.Atoi(m[1])
		if err == nil && seconds > 0 && seconds < maxWait {
			return Line{Wait: time.Duration(seconds) * time.Second}
		}
	}
	if m := captureLine.FindStringSubmatch(text); m != nil {
		return Line{Capture: m[1]}
	}
	if m := loadLine.FindStringSubmatch(text); m != nil {
		return Line{Load: &Load{Host: m[1], Attribute: m[2], Value: m[3]}}
	}
	return Line{Comment: text}
}

// Format writes a script.
func Format(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		switch {
		case l.Command != "":
			fmt.Fprintf(&b, "%s: %s", l.User, l.Command)
			if l.Remark != "" {
				fmt.Fprintf(&b, "   (%s)", l.Remark)
			}
			b.WriteString("\n")
			for _, a := range l.Answer {
				b.WriteString(answerMark + " " + a + "\n")
			}
		case l.Wait != 0:
			fmt.Fprintf(&b, "# wait %d s\n", l.Wait/time.Second)
		case l.Capture != "":
			b.WriteString("# capture output/" + l.Capture + "\n")
		case l.Load != nil:
			fmt.Fprintf(&b, "# load value %s:%s changed to %s\n", l.Load.Host, l.Load.Attribute, l.Load.Value)
		default:
			b.WriteString("# " + l.Comment + "\n")
		}
	}
	return b.String()
}
