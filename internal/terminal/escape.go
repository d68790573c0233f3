package terminal

import "bytes"

// action is an action that the user requests from this side.
type action int

const (
	goOn    action = iota
	detach         // ~.
	suspend        // ~^Z
	help           // ~?
)

const ctrlZ = 'Z' & 0x1f

// escapes finds the escape sequences for this side in the input: as in ssh(1), two characters at
// the beginning of a line, the first of which is char.
type escapes struct {
	char  byte // 0 for none
	state escapeState
}

type escapeState int

const (
	lineBegins escapeState = iota // where a word can begin
	inLine
	afterChar // char has been typed where a word can begin, and was not passed on
)

// next returns the part of p to pass on, up to the first escape sequence, the action of that
// sequence, and the part of p after it.
func (e *escapes) next(p []byte) (pass []byte, do action, rest []byte) {
	if e.char == 0 {
		return p, goOn, nil
	}
	var out bytes.Buffer
	for i, c := range p {
		if e.state == afterChar {
			e.state = lineBegins
			switch c {
			case '.':
				return out.Bytes(), detach, p[i+1:]
			case ctrlZ:
				return out.Bytes(), suspend, p[i+1:]
			case '?':
				return out.Bytes(), help, p[i+1:]
			case e.char: // the character itself, for the other side
				e.state = inLine
				out.WriteByte(c)
				continue
			}
			out.WriteByte(e.char)
		} else if e.state == lineBegins && c == e.char {
			e.state = afterChar
			continue
		}
		e.state = inLine
		if c == '\r' || c == '\n' {
			e.state = lineBegins
		}
		out.WriteByte(c)
	}
	return out.Bytes(), goOn, nil
}
