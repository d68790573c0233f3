package swf

import (
	"strconv"
	"strings"
)

// Header holds the comments before the first record, in their order. Some names occur several
// times, such as Note and Queue.
type Header []Field

// Field is a comment of the form "; Name: value". Comments after it without a name are further
// lines of its value.
type Field struct {
	Name, Value string
}

// Names of fields that a simulation uses.
const (
	MaxNodes      = "MaxNodes"      // nodes of the machine
	MaxProcs      = "MaxProcs"      // processors of the machine
	UnixStartTime = "UnixStartTime" // the reference of submit times, in seconds since 1970
	MaxJobs       = "MaxJobs"       // number of jobs in the trace
	MaxRecords    = "MaxRecords"    // number of records, including parts of jobs
)

// Values returns the values of a name, ignoring its case.
func (h Header) Values(name string) []string {
	var values []string
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// Number returns the number at the start of the first value of a name; some values continue with an
// explanation. ok is false if there is no number, or if it is negative, which means unknown.
func (h Header) Number(name string) (n int64, ok bool) {
	values := h.Values(name)
	if len(values) == 0 {
		return 0, false
	}
	v := values[0]
	end := strings.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(v)
	}
	if rest := v[end:]; len(rest) > 1 && rest[0] != ' ' && rest[1] >= '0' && rest[1] <= '9' {
		return 0, false // 1,024 is not 1
	}
	n, err := strconv.ParseInt(v[:end], 10, 64)
	return n, err == nil
}

// Append appends the header as comments. Parsing them returns the same header, if it came from a
// trace.
func (h Header) Append(b []byte) []byte {
	for _, f := range h {
		b = append(b, "; "+f.Name+": "+strings.ReplaceAll(f.Value, "\n", "\n;   ")+"\n"...)
	}
	return b
}

// add adds a comment, without its semicolon.
func (h Header) add(comment string) Header {
	name, value, found := strings.Cut(comment, ":")
	name = strings.TrimSpace(name)
	if found && isName(name) {
		return append(h, Field{name, strings.TrimSpace(value)})
	}
	if text := strings.TrimSpace(comment); text != "" && len(h) > 0 {
		last := &h[len(h)-1]
		last.Value = strings.TrimSpace(last.Value + "\n" + text)
	}
	return h
}

// isName distinguishes a name from a sentence that contains a colon.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
