package qstat

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/printable"
)

// The schemas that the documents name. Like Grid Engine, the documents name them in attributes
// other than the standard ones for schemas.
const (
	xmlHeader      = "<?xml version='1.0'?>\n"
	schemas        = "http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/"
	qstatDocument  = `<job_info  xmlns:xsd="` + schemas + `qstat/qstat.xsd">` + "\n"
	qhostDocument  = `<qhost xmlns:xsd="` + schemas + `qhost/qhost.xsd">` + "\n"
	qrstatDocument = `<qrstat xmlns:xsd="` + schemas + `qrstat/qrstat.xsd">` + "\n"
	detailDocument = `<detailed_job_info  xmlns:xsd="` + schemas + `qstat/detailed_job_info.xsd">` + "\n"
	// qstat -j without a list of jobs
	messageDocument = `<message  xmlns:xsd="` + schemas + `qstat/message.xsd">` + "\n"
	quotaDocument   = `<qquota_result xmlns="http://arc.liv.ac.uk/repos/darcs/sge/source/source/dist/util/resources/schemas/qquota/qquota.xsd">` + "\n"
)

// appendEscaped appends text for XML. Control characters and bidirectional controls become
// character references. XML cannot represent other C0 characters than tabs and line breaks, nor
// bytes that are not UTF-8: text with any of these is escaped as package printable does.
func appendEscaped(dst []byte, s string) []byte {
	if !inXML(s) {
		s = printable.String(s)
	}
	for _, r := range s {
		switch {
		case r == '&':
			dst = append(dst, "&amp;"...)
		case r == '<':
			dst = append(dst, "&lt;"...)
		case r == '>':
			dst = append(dst, "&gt;"...)
		case r == '"':
			dst = append(dst, "&quot;"...)
		case r == '\'':
			dst = append(dst, "&apos;"...)
		case printable.Special(r):
			dst = append(strconv.AppendInt(append(dst, "&#"...), int64(r), 10), ';')
		case r == 0xfffe, r == 0xffff:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// inXML reports whether text can be a part of an XML document (XML 1.0, Char).
func inXML(s string) bool {
	for i, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return false
		}
	}
	return true
}

// elements appends elements at one depth.
type elements struct {
	dst    []byte
	indent int
	zone   *time.Location
}

func (e *elements) begin(name string) {
	e.dst = append(append(appendBlanks(e.dst, e.indent), '<'), name...)
}

func (e *elements) end(name string) {
	e.dst = append(append(append(e.dst, "</"...), name...), ">\n"...)
}

// open begins an element that has others inside.
func (e *elements) open(name string) {
	e.begin(name)
	e.dst = append(e.dst, ">\n"...)
	e.indent += 2
}

// close closes the element that open opened.
func (e *elements) close(name string) {
	e.indent -= 2
	e.dst = appendBlanks(e.dst, e.indent)
	e.end(name)
}

// text writes an element with text.
func (e *elements) text(name, value string) {
	e.begin(name)
	e.dst = appendEscaped(append(e.dst, '>'), value)
	e.end(name)
}

// texts are elements of one name.
func (e *elements) texts(name string, values []string) {
	for _, v := range values {
		e.text(name, v)
	}
}

func (e *elements) int(name string, value int) {
	e.begin(name)
	e.dst = strconv.AppendInt(append(e.dst, '>'), int64(value), 10)
	e.end(name)
}

// float writes an element with a number with five decimals.
func (e *elements) float(name string, value float64) {
	e.begin(name)
	e.dst = appendFixed(append(e.dst, '>'), value, 0, 5)
	e.end(name)
}

func (e *elements) urgency(name string, value float64) {
	e.begin(name)
	e.dst = appendUrgency(append(e.dst, '>'), value, 0)
	e.end(name)
}

func (e *elements) time(name string, at int64) {
	e.begin(name)
	e.dst = time.Unix(at, 0).In(e.zone).AppendFormat(append(e.dst, '>'), "2006-01-02T15:04:05")
	e.end(name)
}

func (e *elements) ranges(name string, ranges []Range, step bool) {
	e.begin(name)
	e.dst = appendRanges(append(e.dst, '>'), ranges, step)
	e.end(name)
}

// attribute adds an attribute to the element that was begun.
func (e *elements) attribute(name, value string) {
	e.dst = append(append(append(e.dst, ' '), name...), `="`...)
	e.dst = append(appendEscaped(e.dst, value), '"')
}

// truth writes an element that is true or false.
func (e *elements) truth(name string, value bool) {
	e.text(name, strconv.FormatBool(value))
}

// precise writes an element with a number with six decimals.
func (e *elements) precise(name string, value float64) {
	e.begin(name)
	e.dst = appendFixed(append(e.dst, '>'), value, 0, 6)
	e.end(name)
}

// raw appends a line at the depth.
func (e *elements) raw(line string) {
	e.dst = append(append(appendBlanks(e.dst, e.indent), line...), '\n')
}
