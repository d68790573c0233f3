package launcher

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// A message in the compact form begins with these bytes: firstCompact, the version, the code of the kind of an order or 0
// for an answer, and flags. The number of the order follows as a varint, and then the body; an answer with an error has the
// error instead. No JSON begins with firstCompact.
const (
	firstCompact   = 1
	headCompact    = 4
	flagMemory     = 1 // the body is in the first descriptor
	flagError      = 2 // of an answer
	flagWait       = 4 // of launch: a second answer, to wait, is wanted; of an answer: another one follows
	flagsOfOrders  = flagMemory | flagWait
	flagsOfAnswers = flagMemory | flagError | flagWait
)

func isCompact(text []byte) bool { return len(text) > 0 && text[0] == firstCompact }

// compactHead begins a message.
func compactHead(code, flags byte, number uint64) []byte {
	const usual = 1 << 10 // bytes of a message
	return binary.AppendUvarint(append(make([]byte, 0, usual), firstCompact, Version, code, flags), number)
}

// readCompactHead reads what compactHead has written. The version may be another one.
func readCompactHead(text []byte) (version int, code, flags byte, number uint64, rest []byte, err error) {
	if len(text) < headCompact {
		return 0, 0, 0, 0, nil, errShort
	}
	from := compactReader{text: text[headCompact:]}
	number, err = from.uvarint()
	return int(text[1]), text[2], text[3], number, from.text, err
}

// readCompactOrder reads an order without its body, which remains a part of text.
func readCompactOrder(text []byte, e *envelope) (err error) {
	var code, flags byte
	e.compact = true
	e.Version, code, flags, e.Number, e.Body, err = readCompactHead(text)
	e.Memory, e.wait = flags&flagMemory != 0, flags&flagWait != 0
	if e.Order = kindOfCode[code]; err == nil && e.Order == "" {
		err = fmt.Errorf("unknown order %d", code)
	}
	switch {
	case err != nil:
		return err
	case flags&^flagsOfOrders != 0:
		return errors.New("it has unknown flags")
	case e.wait && e.Order != kindLaunch:
		return fmt.Errorf("%s has one answer", e.Order)
	case e.Memory && len(e.Body) > 0:
		return errors.New("it has two bodies")
	}
	return nil
}

// readCompactAnswer reads an answer. Its body is a copy.
func readCompactAnswer(text []byte, a *answer) error {
	version, code, flags, number, body, err := readCompactHead(text)
	a.compact, a.Version, a.Number, a.Memory, a.more = true, version, number, flags&flagMemory != 0, flags&flagWait != 0
	switch {
	case err != nil:
		return err
	case version != Version || code != 0 || flags&^flagsOfAnswers != 0:
		return errors.New("it is not an answer")
	case flags&flagError == 0:
		a.Body = append([]byte{}, body...)
		return nil
	}
	a.Error = &Error{}
	return fromCompact(body, a.Error)
}

// packOrder makes the message of an order. flags are those of compactHead, for an order about a job.
func packOrder(k kind, number uint64, body any, flags byte) (text []byte, fds []int, err error) {
	if code := compactKinds[k]; code != 0 {
		return packCompact(code, flags, number, body)
	}
	e := &envelope{Version: Version, Number: number, Order: k}
	return pack(body, func(memory bool) any {
		e.Memory = memory
		return e
	})
}

// packAnswer makes the message of an answer.
func packAnswer(a *answer, body any) (text []byte, fds []int, err error) {
	a.Version = Version
	switch {
	case !a.compact:
		return pack(body, func(memory bool) any {
			a.Memory = memory
			return a
		})
	case a.Error != nil:
		text, err = toCompact(compactHead(0, flagError, a.Number), a.Error)
		return text, nil, err
	}
	var flags byte
	if a.more {
		flags = flagWait
	}
	return packCompact(0, flags, a.Number, body)
}

// shortBody is the longest body, in bytes, that is sent in a message. Others are files in memory.
const shortBody = 32 << 10

// packCompact makes a message in the compact form. The body is a pointer, or nil for none.
func packCompact(code, flags byte, number uint64, body any) (text []byte, fds []int, err error) {
	text = compactHead(code, flags, number)
	head := len(text)
	if body != nil {
		if text, err = toCompact(text, body); err != nil {
			return nil, nil, err
		}
	}
	if len(text)-head <= shortBody {
		return text, nil, nil
	}
	fd, err := bodyInMemory(text[head:])
	if err != nil {
		return nil, nil, err
	}
	return compactHead(code, flags|flagMemory, number), []int{fd}, nil
}

func bodyInMemory(body []byte) (int, error) {
	if len(body) > mostContent {
		return -1, fmt.Errorf("a content has %d bytes, at most %d are possible", len(body), mostContent)
	}
	return memory("execd", body)
}

// pack makes a message of JSON. A long body is sent as a file in memory. head returns the other fields.
func pack(body any, head func(memory bool) any) (text []byte, fds []int, err error) {
	var b []byte
	if body != nil {
		if b, err = json.Marshal(body); err != nil {
			return nil, nil, err
		}
	}
	if len(b) <= shortBody {
		if text, err = json.Marshal(head(false)); err != nil {
			return nil, nil, err
		}
		return withBody(text, b), nil, nil
	}
	fd, err := bodyInMemory(b)
	if err != nil {
		return nil, nil, err
	}
	text, err = json.Marshal(head(true))
	return text, []int{fd}, err
}
