package jobdir

import (
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/printable"
)

// RecordLine returns a line of the files trace and error in the original's format: "MM/DD/YYYY
// HH:MM:SS [euid:pid]: text". The text may contain paths that users choose. RecordLine escapes it
// (package printable), so that it is a single line without terminal control sequences.
func RecordLine(t time.Time, euid, pid int, text string) string {
	b := make([]byte, 0, 40+len(text))
	b = appendTime(b, t)
	b = append(b, " ["...)
	b = strconv.AppendInt(b, int64(euid), 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, "]: "...)
	return string(append(printable.Append(b, text), '\n'))
}

// appendTime appends "MM/DD/YYYY HH:MM:SS". It takes a tenth of the time of Time.AppendFormat,
// which interprets a layout.
func appendTime(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(appendTwoDigits(b, int(month)), '/')
	b = append(appendTwoDigits(b, day), '/')
	b = append(strconv.AppendInt(b, int64(year), 10), ' ')
	b = append(appendTwoDigits(b, hour), ':')
	b = append(appendTwoDigits(b, minute), ':')
	return appendTwoDigits(b, second)
}

func appendTwoDigits(b []byte, n int) []byte { return append(b, '0'+byte(n/10), '0'+byte(n%10)) }

// FirstStamp returns the prefix of the first line of a file error, "MM/DD/YYYY HH:MM:SS [euid:pid]:
// ". It is empty if the line has no such prefix.
func FirstStamp(data []byte) string {
	line, _, _ := strings.Cut(string(data), "\n")
	stamp, _, ok := strings.Cut(line, "]: ")
	if !ok || strings.Trim(stamp, "0123456789/: [") != "" {
		return ""
	}
	return stamp + "]: "
}

// FirstRecord returns the text of the first line of a file error, without its prefix and unescaped.
// It is empty if there is no line. Only this line is reported.
func FirstRecord(data []byte) string {
	line, _, _ := strings.Cut(string(data), "\n")
	if _, text, ok := strings.Cut(line, "]: "); ok {
		return printable.Original(text)
	}
	return printable.Original(line)
}

// FirstNumber returns the first number of a file exit_status; the others do not count. ok is false
// if there is none: the shepherd has not finished.
func FirstNumber(data []byte) (n int, ok bool) {
	f := strings.Fields(string(data))
	if len(f) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(f[0])
	return n, err == nil
}
