package launcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// The compact form is that of messages about jobs, of which each job needs several: JSON of them took more processor time
// than the files of a job. A value has exactly one compact form, and any other text is an error: a field that does not
// exist, a number out of range or in a longer form than necessary, a field that is sent although it is zero, and text after
// the value. Fields that are not exported are not sent, as in JSON. Strings may contain any bytes.
//
//	struct   a bit for each exported field that is not zero, in whole bytes, and these fields
//	int      zigzag varint
//	uint     varint of the number plus one, so that the largest number, which stands for no limit, is short
//	float    8 bytes
//	string   its length as a varint, and its bytes
//	slice    its length as a varint, and its elements
//	array    its elements
//	bool     nothing: it is a field that is not zero
//	pointer  the value: it is a field that is not zero
//	time     seconds, nanoseconds, and whether it is in UTC; otherwise it is local

// compact is how values of a type are written and read.
type compact struct {
	write func(to []byte, v reflect.Value) []byte
	read  func(from *compactReader, v reflect.Value) error
	zero  func(v reflect.Value) bool
}

// errShort says that a text ends within a value.
var errShort = errors.New("it ends too early")

// toCompact appends the compact form of what a pointer points to.
func toCompact(to []byte, pointer any) ([]byte, error) {
	v := reflect.ValueOf(pointer).Elem()
	c, err := compactOf(v.Type())
	if err != nil {
		return nil, err
	}
	return c.write(to, v), nil
}

// fromCompact reads the compact form of what a pointer points to, which has to be zero. The result shares no memory with
// the text.
func fromCompact(text []byte, pointer any) error {
	v := reflect.ValueOf(pointer).Elem()
	c, err := compactOf(v.Type())
	if err != nil {
		return err
	}
	from := &compactReader{text: text}
	if err := c.read(from, v); err != nil {
		return err
	}
	return from.end()
}

// compactReader is the text that is left, and the numbers of values and objects that were read: see mostValuesOf.
type compactReader struct {
	text            []byte
	values, objects int
}

func (r *compactReader) end() error {
	if len(r.text) > 0 {
		return fmt.Errorf("there are %d bytes after the value", len(r.text))
	}
	return nil
}

// count refuses contents that take up too much memory.
func (r *compactReader) count(values, objects int) error {
	r.values += values
	r.objects += objects
	if r.objects > mostObjectsOf || r.values > mostValuesOf {
		return tooManyValues(r.values, r.objects)
	}
	return nil
}

func (r *compactReader) take(n int) ([]byte, error) {
	if n > len(r.text) {
		return nil, errShort
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b, nil
}

// uvarint reads a number in its shortest form.
func (r *compactReader) uvarint() (uint64, error) {
	u, n := binary.Uvarint(r.text)
	switch {
	case n == 0:
		return 0, errShort
	case n < 0:
		return 0, errors.New("a number is out of range")
	case n > 1 && r.text[n-1] == 0:
		return 0, errors.New("a number is longer than necessary")
	}
	r.text = r.text[n:]
	return u, nil
}

// length reads the length of something whose elements have at least one byte each.
func (r *compactReader) length() (int, error) {
	n, err := r.uvarint()
	if err == nil && n > uint64(len(r.text)) {
		err = errShort
	}
	return int(n), err
}

func (r *compactReader) varint() (int64, error) {
	u, err := r.uvarint()
	return int64(u>>1) ^ -int64(u&1), err
}

var (
	compacts      sync.Map // of *compact, by reflect.Type
	typeOfTime    = reflect.TypeFor[time.Time]()
	typeOfStrings = reflect.TypeFor[[]string]()
	compactTime   = &compact{writeTime, readTime, func(v reflect.Value) bool { return timeOf(v).IsZero() }}
)

// compactOf returns the compact form of a type, which must not contain itself.
func compactOf(t reflect.Type) (*compact, error) {
	if c, ok := compacts.Load(t); ok {
		return c.(*compact), nil
	}
	c, err := newCompact(t)
	if err != nil {
		return nil, err
	}
	compacts.Store(t, c)
	return c, nil
}

func newCompact(t reflect.Type) (*compact, error) {
	c := &compact{zero: reflect.Value.IsZero}
	switch t.Kind() {
	case reflect.String:
		c.write = func(to []byte, v reflect.Value) []byte {
			s := v.String()
			return append(binary.AppendUvarint(to, uint64(len(s))), s...)
		}
		c.read = func(from *compactReader, v reflect.Value) error {
			b, err := from.bytes()
			v.SetString(string(b))
			return err
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.write = func(to []byte, v reflect.Value) []byte { return binary.AppendVarint(to, v.Int()) }
		c.read = func(from *compactReader, v reflect.Value) error {
			n, err := from.varint()
			if err == nil && v.OverflowInt(n) {
				err = fmt.Errorf("the number %d is out of range", n)
			}
			v.SetInt(n)
			return err
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.write = func(to []byte, v reflect.Value) []byte { return binary.AppendUvarint(to, v.Uint()+1) }
		c.read = func(from *compactReader, v reflect.Value) error {
			n, err := from.uvarint()
			n--
			if err == nil && v.OverflowUint(n) {
				err = fmt.Errorf("the number %d is out of range", n)
			}
			v.SetUint(n)
			return err
		}
	case reflect.Float64:
		c.write = func(to []byte, v reflect.Value) []byte {
			return binary.LittleEndian.AppendUint64(to, math.Float64bits(v.Float()))
		}
		c.read = func(from *compactReader, v reflect.Value) error {
			b, err := from.take(8)
			if err == nil {
				v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
			}
			return err
		}
	case reflect.Slice:
		return compactSlice(t)
	case reflect.Array:
		return compactArray(t)
	case reflect.Struct:
		if t == typeOfTime {
			return compactTime, nil
		}
		return compactStruct(t)
	default:
		return nil, fmt.Errorf("a %v has no compact form", t)
	}
	return c, nil
}

func (r *compactReader) bytes() ([]byte, error) {
	n, err := r.length()
	if err != nil {
		return nil, err
	}
	return r.take(n)
}

func compactSlice(t reflect.Type) (*compact, error) {
	zero := func(v reflect.Value) bool { return v.IsNil() } // an empty slice is not nil
	if t.Elem().Kind() == reflect.Uint8 {
		return &compact{
			write: func(to []byte, v reflect.Value) []byte {
				return append(binary.AppendUvarint(to, uint64(v.Len())), v.Bytes()...)
			},
			read: func(from *compactReader, v reflect.Value) error {
				b, err := from.bytes()
				if err == nil {
					v.SetBytes(append([]byte{}, b...))
				}
				return err
			},
			zero: zero,
		}, nil
	}
	if t.Elem().Kind() == reflect.Slice { // nil would become empty
		return nil, fmt.Errorf("a %v has no compact form", t)
	}
	if t == typeOfStrings {
		return &compact{writeStrings, readStrings, zero}, nil
	}
	e, err := compactOf(t.Elem())
	if err != nil {
		return nil, err
	}
	objects := 0
	switch t.Elem().Kind() {
	case reflect.Struct, reflect.Array:
		objects = 1
	default:
	}
	return &compact{
		write: func(to []byte, v reflect.Value) []byte {
			n := v.Len()
			to = binary.AppendUvarint(to, uint64(n))
			for i := range n {
				to = e.write(to, v.Index(i))
			}
			return to
		},
		read: func(from *compactReader, v reflect.Value) error {
			n, err := from.length()
			if err == nil {
				err = from.count(n, 1+n*objects)
			}
			if err != nil {
				return err
			}
			list := reflect.MakeSlice(t, n, n)
			for i := range n {
				if err := e.read(from, list.Index(i)); err != nil {
					return err
				}
			}
			v.Set(list)
			return nil
		},
		zero: zero,
	}, nil
}

// writeStrings and readStrings do the same as for other slices. Environments and arguments are most of a description, and
// a call by package reflect for each string takes longer than the rest.
func writeStrings(to []byte, v reflect.Value) []byte {
	list, _ := reflect.TypeAssert[[]string](v)
	size := binary.MaxVarintLen64
	for _, s := range list {
		size += binary.MaxVarintLen32 + len(s)
	}
	to = binary.AppendUvarint(slices.Grow(to, size), uint64(len(list)))
	for _, s := range list {
		to = append(binary.AppendUvarint(to, uint64(len(s))), s...)
	}
	return to
}

// readStrings reads strings that share one piece of memory.
func readStrings(from *compactReader, v reflect.Value) error {
	n, err := from.length()
	if err == nil {
		err = from.count(n, 1)
	}
	if err != nil {
		return err
	}
	begin := from.text
	list := make([]string, n)
	for range n {
		if _, err := from.bytes(); err != nil {
			return err
		}
	}
	all := string(begin[:len(begin)-len(from.text)])
	again := &compactReader{text: begin[:len(all)]}
	for i := range n {
		b, _ := again.bytes()
		end := len(all) - len(again.text)
		list[i] = all[end-len(b) : end]
	}
	v.Set(reflect.ValueOf(list))
	return nil
}

func compactArray(t reflect.Type) (*compact, error) {
	if k := t.Elem().Kind(); k == reflect.Slice || t.Len() == 0 {
		return nil, fmt.Errorf("a %v has no compact form", t)
	}
	e, err := compactOf(t.Elem())
	if err != nil {
		return nil, err
	}
	return &compact{
		write: func(to []byte, v reflect.Value) []byte {
			for i := range t.Len() {
				to = e.write(to, v.Index(i))
			}
			return to
		},
		read: func(from *compactReader, v reflect.Value) error {
			if err := from.count(t.Len(), 0); err != nil {
				return err
			}
			for i := range t.Len() {
				if err := e.read(from, v.Index(i)); err != nil {
					return err
				}
			}
			return nil
		},
		zero: func(v reflect.Value) bool {
			for i := range t.Len() {
				if !e.zero(v.Index(i)) {
					return false
				}
			}
			return true
		},
	}, nil
}

// compactField is an exported field of a struct.
type compactField struct {
	*compact
	index int
	name  string
}

// compactBool is the form of a field: its presence says all.
var compactBool = &compact{
	write: func(to []byte, _ reflect.Value) []byte { return to },
	read:  func(_ *compactReader, v reflect.Value) error { v.SetBool(true); return nil },
	zero:  reflect.Value.IsZero,
}

// compactPointer is the form of a field: a nil pointer is not sent.
func compactPointer(t reflect.Type) (*compact, error) {
	e, err := compactOf(t.Elem())
	if err != nil {
		return nil, err
	}
	return &compact{
		write: func(to []byte, v reflect.Value) []byte { return e.write(to, v.Elem()) },
		read: func(from *compactReader, v reflect.Value) error {
			p := reflect.New(t.Elem())
			v.Set(p)
			return e.read(from, p.Elem())
		},
		zero: reflect.Value.IsZero,
	}, nil
}

// compactFields returns the exported fields of a struct.
func compactFields(t reflect.Type) (fields []compactField, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		var c *compact
		switch f.Type.Kind() {
		case reflect.Bool:
			c = compactBool
		case reflect.Pointer:
			c, err = compactPointer(f.Type)
		default:
			c, err = compactOf(f.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		fields = append(fields, compactField{c, i, f.Name})
	}
	return fields, nil
}

func compactStruct(t reflect.Type) (*compact, error) {
	fields, err := compactFields(t)
	if err != nil {
		return nil, err
	}
	bits := make([]byte, max((len(fields)+7)/8, 1))
	return &compact{
		write: func(to []byte, v reflect.Value) []byte {
			at := len(to)
			to = append(to, bits...)
			for i := range fields {
				f := &fields[i]
				if field := v.Field(f.index); !f.zero(field) {
					to[at+i/8] |= 1 << (i % 8)
					to = f.write(to, field)
				}
			}
			return to
		},
		read: func(from *compactReader, v reflect.Value) error {
			return from.fields(fields, func(f *compactField) error {
				if err := f.read(from, v.Field(f.index)); err != nil {
					return err
				}
				if f.zero(v.Field(f.index)) {
					return errors.New("it is sent although it is zero")
				}
				return nil
			})
		},
		zero: func(v reflect.Value) bool {
			for i := range fields {
				if !fields[i].zero(v.Field(fields[i].index)) {
					return false
				}
			}
			return true
		},
	}, nil
}

// fields calls a function for each field that a text has.
func (r *compactReader) fields(fields []compactField, read func(*compactField) error) error {
	bits, err := r.take(max((len(fields)+7)/8, 1))
	if err != nil {
		return err
	}
	n := 0
	for i := range 8 * len(bits) {
		if bits[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if i >= len(fields) {
			return fmt.Errorf("unknown field %d", i)
		}
		n++
		if err := read(&fields[i]); err != nil {
			return fmt.Errorf("%s: %w", fields[i].name, err)
		}
	}
	return r.count(n, 1)
}

func timeOf(v reflect.Value) time.Time {
	t, _ := reflect.TypeAssert[time.Time](v)
	return t
}

func writeTime(to []byte, v reflect.Value) []byte {
	t := timeOf(v)
	to = binary.AppendVarint(to, t.Unix())
	to = binary.AppendUvarint(to, uint64(t.Nanosecond()))
	if t.Location() == time.UTC {
		return append(to, 1)
	}
	return append(to, 0)
}

func readTime(from *compactReader, v reflect.Value) error {
	seconds, err := from.varint()
	if err != nil {
		return err
	}
	nano, err := from.uvarint()
	if err != nil {
		return err
	}
	utc, err := from.take(1)
	switch {
	case err != nil:
		return err
	case nano >= uint64(time.Second) || utc[0] > 1:
		return errors.New("it is not a time")
	}
	t := time.Unix(seconds, int64(nano))
	if utc[0] == 1 {
		t = t.UTC()
	}
	if t.Unix() != seconds {
		return errors.New("a time is out of range")
	}
	v.Set(reflect.ValueOf(t))
	return nil
}
