package cull

import (
	"fmt"
	"reflect"
	"strings"
)

// A Go type for a kind of elements is a struct with a blank field, whose tag is the name
// of the kind, and fields whose tags name attributes, without the prefix:
//
//	type Usage struct {
//		_     struct{} `cull:"UA"`
//		Name  string   `cull:"name"`
//		Value float64  `cull:"value"`
//	}
//
// An ulong is a uint32, a bool a bool, a double a float64, a string or host a string, a
// list a slice of such structs and an object a pointer to one. Depending on the format, Micros
// is an ulong or an ulong64, and a slice is a list or an object, its first element. A tag
// "usage,usagelist" also contains the name of the list. Attributes without a field are zero when
// they are sent, and skipped when they are received. Fields whose attribute the format does not
// have are skipped when they are sent, and zero when they are received.

// kind holds the tags of a struct.
type kind struct {
	format *Format
	object string
	table  *table // nil where the format has no such kind
	fields []field
}

type field struct {
	index     int
	attribute string // without the prefix
	list      string // name of a list
	name      string
}

// kindOf reads the tags of a struct.
func (f *Format) kindOf(t reflect.Type) *kind {
	k := &kind{format: f}
	for i := range t.NumField() {
		member := t.Field(i)
		tag, ok := member.Tag.Lookup("cull")
		switch {
		case !ok:
		case member.Name == "_":
			k.object, k.table = tag, f.table(tag)
		default:
			name, list, _ := strings.Cut(tag, ",")
			if !known(k.object, name) {
				mistake("%v: no format has %s_%s", t, k.object, name)
			}
			k.fields = append(k.fields, field{i, name, list, k.object + "_" + name})
		}
	}
	if k.object == "" {
		mistake("%v has no blank field with the name of a kind of elements", t)
	}
	return k
}

// Marshal converts a struct into an element outside of a list.
func (f *Format) Marshal(v any) *Element {
	r := reflect.Indirect(reflect.ValueOf(v))
	return marshal(r, f.kindOf(r.Type()), Free)
}

// MarshalList makes a list of a slice of structs. nil is the list NULL, and an empty
// slice one without elements.
func MarshalList[T any](f *Format, name string, v []T) *List {
	return f.marshalList(reflect.ValueOf(v), name)
}

func (f *Format) marshalList(r reflect.Value, name string) *List {
	if r.IsNil() {
		return nil
	}
	k := f.kindOf(r.Type().Elem())
	l := &List{Name: name, Changed: f.changes, Descriptor: f.DescriptorOf(k.object)}
	for i := range r.Len() {
		l.Elements = append(l.Elements, marshal(r.Index(i), k, InList))
	}
	return l
}

func marshal(r reflect.Value, k *kind, s Status) *Element {
	t := k.format.need(k.object)
	e := &Element{Status: s, Descriptor: t.descriptor, Values: make([]any, len(t.descriptor))}
	for i, a := range e.Descriptor {
		e.Values[i] = zero(a.Type())
		for _, f := range k.fields {
			if id, ok := t.ids[f.attribute]; ok && id == a.ID {
				e.Values[i] = k.format.marshalValue(r.Field(f.index), f, a.Type())
			}
		}
	}
	return e
}

func zero(t Type) any {
	switch t {
	case Ulong:
		return uint32(0)
	case Ulong64:
		return uint64(0)
	case Bool:
		return false
	case Double:
		return float64(0)
	case String, Host:
		return ""
	case ListOf:
		return (*List)(nil)
	case Object:
		return (*Element)(nil)
	default:
		return nil
	}
}

func (f *Format) marshalValue(r reflect.Value, member field, t Type) any {
	switch r.Kind() {
	case reflect.Uint64:
		m := Micros(r.Uint())
		if t == Ulong {
			return m.ulong()
		}
		return uint64(m)
	case reflect.Uint32:
		return uint32(r.Uint())
	case reflect.Bool:
		return r.Bool()
	case reflect.Float64:
		return r.Float()
	case reflect.String:
		return r.String()
	case reflect.Slice:
		if t != Object {
			return f.marshalList(r, member.list)
		}
		if r.Len() == 0 {
			return (*Element)(nil)
		}
		return marshal(r.Index(0), f.kindOf(r.Type().Elem()), SubObject)
	case reflect.Pointer:
		if r.IsNil() {
			return (*Element)(nil)
		}
		return marshal(r.Elem(), f.kindOf(r.Type().Elem()), SubObject)
	default:
		mistake("%s cannot be a %v", member.name, r.Type())
		return nil
	}
}

// AttributeError is an attribute of the wrong type.
type AttributeError struct {
	Attribute string
	Got       any
	Want      string
}

func (e *AttributeError) Error() string {
	return fmt.Sprintf("%s is a %T, expected %s", e.Attribute, e.Got, e.Want)
}

// Unmarshal fills a struct in from an element. Attributes that it lacks are zero. The error is a
// *DescriptorError if it has unknown ones.
func (f *Format) Unmarshal(e *Element, v any) error {
	r := reflect.ValueOf(v).Elem()
	return unmarshal(e, r, f.kindOf(r.Type()))
}

// UnmarshalList makes a slice of structs of a list.
func UnmarshalList[T any](f *Format, l *List) ([]T, error) {
	var v []T
	err := f.unmarshalList(l, reflect.ValueOf(&v).Elem())
	return v, err
}

func unmarshal(e *Element, r reflect.Value, k *kind) error {
	if k.table == nil {
		return &DescriptorError{Kind: k.object, Format: k.format.Name}
	}
	t, err := k.tableFor(e.Descriptor)
	if err != nil {
		return err
	}
	for _, f := range k.fields {
		id, ok := t.ids[f.attribute]
		if !ok {
			continue
		}
		at := e.Descriptor.index(id)
		if at < 0 {
			continue
		}
		if err := k.format.unmarshalValue(e.Values[at], r.Field(f.index), f); err != nil {
			return err
		}
	}
	return nil
}

func (f *Format) unmarshalList(l *List, r reflect.Value) error {
	if l == nil {
		r.SetZero()
		return nil
	}
	k := f.kindOf(r.Type().Elem())
	r.Set(reflect.MakeSlice(r.Type(), len(l.Elements), len(l.Elements)))
	for i, e := range l.Elements {
		if err := unmarshal(e, r.Index(i), k); err != nil {
			return err
		}
	}
	return nil
}

func (f *Format) unmarshalValue(v any, r reflect.Value, member field) error {
	wrong := func(want string) error { return &AttributeError{member.name, v, want} }
	switch r.Kind() {
	case reflect.Uint64:
		switch n := v.(type) {
		case uint32:
			r.SetUint(uint64(microsOf(n)))
		case uint64:
			r.SetUint(n)
		default:
			return wrong("a time")
		}
	case reflect.Uint32:
		n, ok := v.(uint32)
		if !ok {
			return wrong("a number")
		}
		r.SetUint(uint64(n))
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return wrong("a truth value")
		}
		r.SetBool(b)
	case reflect.Float64:
		d, ok := v.(float64)
		if !ok {
			return wrong("a floating point number")
		}
		r.SetFloat(d)
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return wrong("a text")
		}
		r.SetString(s)
	case reflect.Slice:
		switch v := v.(type) {
		case *List:
			return f.unmarshalList(v, r)
		case *Element:
			r.SetZero()
			if v == nil {
				return nil
			}
			r.Set(reflect.MakeSlice(r.Type(), 1, 1))
			return unmarshal(v, r.Index(0), f.kindOf(r.Type().Elem()))
		default:
			return wrong("a list")
		}
	case reflect.Pointer:
		x, ok := v.(*Element)
		if !ok {
			return wrong("an object")
		}
		if x == nil {
			r.SetZero()
			return nil
		}
		r.Set(reflect.New(r.Type().Elem()))
		return unmarshal(x, r.Elem(), f.kindOf(r.Type().Elem()))
	default:
		mistake("%s cannot be a %v", member.name, r.Type())
	}
	return nil
}
