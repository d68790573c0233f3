package cull

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Limits restrict the size of decoded data.
type Limits struct {
	Depth  int // of lists and objects within each other; 0 is DefaultDepth
	Values int // of all elements together; 0 is DefaultValues
}

// The default limits. A job has a depth of five and a few hundred values, and fifty more for each
// queue instance.
const (
	DefaultDepth  = 16
	DefaultValues = 4 << 20
)

// maxAttributes is the maximum number of attributes of a descriptor in Grid Engine.
const maxAttributes = 199

// DecodeError is an error of unpacking a buffer.
type DecodeError struct {
	Offset  int // in the buffer, bytes
	Problem string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("cannot unpack, at byte %d: %s", e.Offset, e.Problem)
}

// Decoder unpacks a buffer from its beginning to its end. After the first error every value is
// zero, and Err returns that error.
type Decoder struct {
	format *Format
	data   []byte
	offset int
	limits Limits
	values int
	err    error
}

// NewDecoder returns a decoder for a buffer.
func (f *Format) NewDecoder(data []byte, l Limits) *Decoder {
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	if l.Values <= 0 {
		l.Values = DefaultValues
	}
	return &Decoder{format: f, data: data, limits: l}
}

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Len returns the number of bytes that are left.
func (d *Decoder) Len() int {
	if d.err != nil {
		return 0
	}
	return len(d.data) - d.offset
}

// End says that nothing may be left, and returns Err.
func (d *Decoder) End() error {
	if n := d.Len(); n > 0 {
		d.Fail("%d bytes are left over", n)
	}
	return d.err
}

// Fail makes an error of the decoder, unless there is one.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = &DecodeError{d.offset, fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes; nil after an error.
func (d *Decoder) take(n int, what string) []byte {
	if d.err == nil && n > len(d.data)-d.offset {
		d.Fail("%s needs %d bytes, and %d are left", what, n, len(d.data)-d.offset)
	}
	if d.err != nil {
		return nil
	}
	b := d.data[d.offset : d.offset+n]
	d.offset += n
	return b
}

// Ulong unpacks a number.
func (d *Decoder) Ulong() uint32 {
	b := d.take(4, "a number")
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Ulong64 unpacks a large number, as 9.0 and later pack it.
func (d *Decoder) Ulong64() uint64 {
	b := d.take(8, "a large number")
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Bool unpacks a truth value.
func (d *Decoder) Bool() bool {
	switch n := d.Ulong(); n {
	case 0:
		return false
	case 1:
		return true
	default:
		d.Fail("%d, expected 0 or 1", n)
		return false
	}
}

// Double unpacks a floating point number.
func (d *Decoder) Double() float64 {
	b := d.take(8, "a double")
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.BigEndian.Uint64(b))
}

// String unpacks a text.
func (d *Decoder) String() string {
	if d.err != nil {
		return ""
	}
	n := bytes.IndexByte(d.data[d.offset:], 0)
	if n < 0 {
		d.Fail("a text has no end")
		return ""
	}
	return string(d.take(n+1, "a text")[:n])
}

// spend counts values.
func (d *Decoder) spend(n int) {
	if d.values += n; d.values > d.limits.Values {
		d.Fail("more than %d values", d.limits.Values)
	}
}

// Descriptor unpacks a descriptor.
func (d *Decoder) Descriptor() Descriptor {
	n := d.Ulong()
	if n > maxAttributes {
		d.Fail("%d attributes, at most %d are possible", n, maxAttributes)
	}
	d.spend(int(n))
	if d.err != nil {
		return nil
	}
	list := make(Descriptor, n)
	for i := range list {
		list[i] = Attribute{d.Ulong(), d.Ulong()}
		if _, ok := typeNames[list[i].Type()]; !ok {
			d.Fail("attribute %d has an unknown type: %v", list[i].ID, list[i].Type())
		}
	}
	if d.err != nil {
		return nil
	}
	return list
}

// List unpacks a list; nil for NULL.
func (d *Decoder) List() *List { return d.list(0) }

// Element unpacks an element outside of a list.
func (d *Decoder) Element() *Element { return d.element(nil, 0) }

func (d *Decoder) deeper(depth int) int {
	if depth >= d.limits.Depth {
		d.Fail("lists and objects are more than %d deep", d.limits.Depth)
	}
	return depth + 1
}

func (d *Decoder) list(depth int) *List {
	if !d.Bool() {
		return nil
	}
	depth = d.deeper(depth)
	var n uint32
	if d.format.counted {
		n = d.Ulong()
	}
	l := &List{Name: d.String()}
	if d.format.changes {
		l.Changed = d.Bool()
	}
	l.Descriptor = d.Descriptor()
	const smallest = 4 // status
	if int64(n)*smallest > int64(d.Len()) {
		d.Fail("a list of %d elements does not fit into %d bytes", n, d.Len())
	}
	for i := uint32(0); d.err == nil && (d.format.counted && i < n || !d.format.counted && d.Bool()); i++ {
		l.Elements = append(l.Elements, d.element(l.Descriptor, depth))
	}
	if d.err != nil {
		return nil
	}
	return l
}

// inListAgain is another number for InList.
const inListAgain = 4

func (d *Decoder) element(descriptor Descriptor, depth int) *Element {
	e := &Element{Status: Status(d.Ulong()), Descriptor: descriptor}
	switch {
	case e.Status == Free:
		e.Descriptor = d.Descriptor()
	case descriptor == nil && d.err == nil:
		d.Fail("an element by itself has the status %d, expected %d", e.Status, Free)
	case e.Status != InList && e.Status != SubObject && e.Status != inListAgain:
		d.Fail("%d is no status of an element", e.Status)
	}
	n := len(e.Descriptor)
	if d.format.changes {
		if bits := d.Ulong(); d.err == nil && int64(bits) != int64(n) {
			d.Fail("%d bits for %d attributes", bits, n)
		}
		d.take((n+7)/8, "a bit field")
	}
	d.spend(1 + n)
	if d.err != nil {
		return nil
	}
	e.Values = make([]any, n)
	for i, a := range e.Descriptor {
		if e.Values[i] = d.value(a.Type(), depth); d.err != nil {
			return nil
		}
	}
	return e
}

func (d *Decoder) value(t Type, depth int) any {
	switch t {
	case Ulong:
		return d.Ulong()
	case Ulong64:
		return d.Ulong64()
	case Bool:
		return d.Bool()
	case Double:
		return d.Double()
	case String, Host:
		return d.String()
	case ListOf:
		return d.list(depth)
	case Object:
		if !d.Bool() {
			return (*Element)(nil)
		}
		depth = d.deeper(depth)
		descriptor := d.Descriptor()
		if d.err != nil {
			return nil
		}
		return d.element(descriptor, depth)
	default: // Ref
		return nil
	}
}
