package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/joblist"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/usagetext"
)

// functions are the template functions. Text chosen by users passes through the function text,
// which makes control characters visible; the templates escape everything else.
var functions = template.FuncMap{
	"text":     printable.String,
	"size":     func(v any) string { return size(number(v)) },
	"duration": func(v any) string { return joblist.Duration(number(v)) },
	"percent":  percent,
	"decimal":  func(v any) string { return strconv.FormatFloat(number(v), 'f', 2, 64) },
	"part":     part,
	"clock":    clock,
	"iso":      func(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) },
	"ago":      ago,
	"until":    func(at int64, now time.Time) string { return "in " + joblist.Duration(float64(at-now.Unix())) },
	"measure":  func(p float64, text string) measure { return measure{min(max(p, 0), 1), p, text} },
	"join":     func(list []string) string { return strings.Join(list, " ") },
	"gpus":     func(e *accounting.Efficiency) string { return usagetext.GPUs(&e.GPU) },
	"longest":  func(e *accounting.Efficiency) string { return joblist.Duration(e.Longest) },
	"width":    func(p float64) string { return strconv.FormatFloat(min(max(p, 0), 1)*100, 'f', 1, 64) },
	"indent":   func(n int) string { return strconv.Itoa(min(n, 8)) },
	"states":   instanceStates,
}

// measure is a bar of a meter.
type measure struct {
	Value, Part float64
	Text        string
}

// number returns a value of a template as a number; 0 for nil.
func number(v any) float64 {
	switch v := v.(type) {
	case *float64:
		if v != nil {
			return *v
		}
	case *int:
		if v != nil {
			return float64(*v)
		}
	case float64:
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	}
	return 0
}

// part returns a divided by b, 0 if b is 0.
func part(a, b any) float64 {
	if number(b) <= 0 {
		return 0
	}
	return number(a) / number(b)
}

func percent(p float64) string { return strconv.FormatFloat(p*100, 'f', 0, 64) + " %" }

// size formats a number of bytes.
func size(bytes float64) string {
	units, i := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}, 0
	for bytes >= 1024 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	digits := 1
	if i == 0 || bytes >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(bytes, 'f', digits, 64) + " " + units[i]
}

// clock formats a time of today as 15:04:05, and any other time with its date.
func clock(at int64, now time.Time) string {
	t := time.Unix(at, 0)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// ago formats the time since at, in one unit.
func ago(at int64, now time.Time) string {
	s := now.Unix() - at
	switch {
	case s < 60:
		return "less than a minute ago"
	case s < 3600:
		return fmt.Sprintf("%d min ago", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%d h ago", s/3600)
	}
	return fmt.Sprintf("%d days ago", s/86400)
}

// instanceStates returns the state of a queue instance in words (qstat(1)).
func instanceStates(letters string) string {
	words := map[rune]string{
		'a': "load alarm", 'A': "suspend alarm", 'u': "unknown", 's': "suspended", 'd': "disabled", 'S': "suspended by subordination",
		'C': "suspended by calendar", 'D': "disabled by calendar", 'E': "error", 'c': "configuration ambiguous", 'o': "orphaned", 'P': "preempted",
	}
	var all []string
	for _, r := range letters {
		if w := words[r]; w != "" {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return "ok"
	}
	return strings.Join(all, ", ")
}
