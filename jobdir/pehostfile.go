package jobdir

import (
	"strconv"
	"strings"
)

// PEHost is a line of pe_hostfile (sge_pe(5)): the slots that a job was granted in one queue
// instance.
type PEHost struct {
	Host  string
	Slots int
	Queue string // queue instance, queue@host
	// Processors is the queue's processors, or the "socket,core:..." list of -binding pe. Empty is
	// written as UNDEFINED.
	Processors string
}

const noProcessors = "UNDEFINED"

// FormatPEHosts formats a pe_hostfile. Spaces separate the fields of a line.
func FormatPEHosts(hosts []PEHost) ([]byte, error) {
	var b []byte
	for _, h := range hosts {
		p := h.Processors
		if p == "" {
			p = noProcessors
		}
		for _, f := range []struct{ name, value string }{{"host", h.Host}, {"queue", h.Queue}, {"processors", p}} {
			if f.value == "" || strings.ContainsAny(f.value, " \t\n\r\v\f\x00") {
				return nil, &ValueError{FilePEHosts, f.name, quote(f.value) + " is empty or contains white space"}
			}
		}
		if h.Slots < 1 || h.Slots > mostNumber {
			return nil, &ValueError{FilePEHosts, "slots", strconv.Itoa(h.Slots) + " is not a number of slots"}
		}
		b = append(b, h.Host+" "+strconv.Itoa(h.Slots)+" "+h.Queue+" "+p+"\n"...)
	}
	return b, nil
}

// ParsePEHosts reads a pe_hostfile.
func ParsePEHosts(file string, data []byte) ([]PEHost, error) {
	var hosts []PEHost
	err := eachLine(file, data, func(line int, text string) error {
		f := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
		if len(f) != 4 || strings.ContainsAny(text, "\r\v\f") {
			return &SyntaxError{file, line, "", "expected host, slots, queue instance and processors, found " + quote(text)}
		}
		n, err := strconv.ParseInt(f[1], 10, 32)
		if err != nil || n < 1 {
			return &SyntaxError{file, line, "slots", quote(f[1]) + " is not a number of slots"}
		}
		h := PEHost{Host: f[0], Slots: int(n), Queue: f[2], Processors: f[3]}
		if h.Processors == noProcessors || h.Processors == "<NULL>" {
			h.Processors = ""
		}
		hosts = append(hosts, h)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return hosts, nil
}
