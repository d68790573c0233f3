package cull

import (
	"encoding/binary"
	"math"
	"strings"
)

// Encoder packs values into a buffer.
type Encoder struct {
	format *Format
	data   []byte
}

// NewEncoder returns an encoder with an empty buffer.
func (f *Format) NewEncoder() *Encoder { return &Encoder{format: f} }

// Bytes returns the packed data.
func (e *Encoder) Bytes() []byte { return e.data }

// Ulong packs a number.
func (e *Encoder) Ulong(v uint32) { e.data = binary.BigEndian.AppendUint32(e.data, v) }

// Bool packs a truth value.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Ulong(1)
	} else {
		e.Ulong(0)
	}
}

// Double packs a floating point number.
func (e *Encoder) Double(v float64) {
	e.data = binary.BigEndian.AppendUint64(e.data, math.Float64bits(v))
}

// String packs a text up to its first NUL, because the format cannot represent more.
func (e *Encoder) String(s string) {
	s, _, _ = strings.Cut(s, "\x00")
	e.data = append(append(e.data, s...), 0)
}

// Descriptor packs a descriptor.
func (e *Encoder) Descriptor(d Descriptor) {
	e.Ulong(uint32(len(d)))
	for _, a := range d {
		e.Ulong(a.ID)
		e.Ulong(a.Word)
	}
}

// List packs a list; nil is NULL.
func (e *Encoder) List(l *List) {
	e.Bool(l != nil)
	if l == nil {
		return
	}
	if e.format.counted {
		e.Ulong(uint32(len(l.Elements)))
	}
	e.String(l.Name)
	if e.format.changes {
		e.Bool(l.Changed)
	}
	e.Descriptor(l.Descriptor)
	for _, x := range l.Elements {
		if !e.format.counted {
			e.Bool(true)
		}
		e.element(x, l.Descriptor)
	}
	if !e.format.counted {
		e.Bool(false)
	}
}

// Element packs an element outside of a list.
func (e *Encoder) Element(x *Element) { e.element(x, nil) }

func (e *Encoder) element(x *Element, descriptor Descriptor) {
	e.Ulong(uint32(x.Status))
	if x.Status == Free {
		descriptor = x.Descriptor
		e.Descriptor(descriptor)
	}
	if e.format.changes {
		e.Ulong(uint32(len(descriptor)))
		e.data = append(e.data, make([]byte, (len(descriptor)+7)/8)...)
	}
	for i, a := range descriptor {
		e.value(a, x.Values[i])
	}
}

func (e *Encoder) value(a Attribute, v any) {
	switch a.Type() {
	case Ulong:
		e.Ulong(v.(uint32))
	case Ulong64:
		e.data = binary.BigEndian.AppendUint64(e.data, v.(uint64))
	case Bool:
		e.Bool(v.(bool))
	case Double:
		e.Double(v.(float64))
	case String, Host:
		e.String(v.(string))
	case ListOf:
		e.List(v.(*List))
	case Object:
		x := v.(*Element)
		e.Bool(x != nil)
		if x != nil {
			e.Descriptor(x.Descriptor)
			e.element(x, x.Descriptor)
		}
	case Ref:
	default:
		mistake("attribute %d has %v", a.ID, a.Type())
	}
}
