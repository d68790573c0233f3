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
// list a slice of such structs and an object a pointer to one. A tag "usage,usagelist"
// also has the name that a list gets. Attributes without a field are zero when they are
// sent, and skipped when they are received.

// kind is what the tags of a struct say.
type kind struct {
	object string
	table  *table
	fields []field
}

type field struct {
	index int
	id    uint32
	list  string // name of a list
	name  string
}

func kindOf(t reflect.Type) kind {
	var k kind
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("cull")
		switch {
		case !ok:
		case f.Name == "_":
			k.object, k.table = tag, tableOf(tag)
		default:
			name, list, _ := strings.Cut(tag, ",")
			k.fields = append(k.fields, field{i, k.table.id(k.object, name), list, k.object + "_" + name})
		}
	}
	if k.table == nil {
		mistake("%v has no blank field with the name of a kind of elements", t)
	}
	return k
}

// Marshal makes an element that stands by itself of a struct.
func Marshal(v any) *Element {
	r := reflect.Indirect(reflect.ValueOf(v))
	return marshal(r, kindOf(r.Type()), Free)
}

// MarshalList makes a list of a slice of structs. nil is the list NULL, and an empty
// slice one without elements.
func MarshalList[T any](name string, v []T) *List {
	return marshalList(reflect.ValueOf(v), name)
}

func marshalList(r reflect.Value, name string) *List {
	if r.IsNil() {
		return nil
	}
	k := kindOf(r.Type().Elem())
	l := &List{Name: name, Changed: true, Descriptor: k.table.descriptor}
	for i := range r.Len() {
		l.Elements = append(l.Elements, marshal(r.Index(i), k, InList))
	}
	return l
}

func marshal(r reflect.Value, k kind, s Status) *Element {
	e := &Element{Status: s, Descriptor: k.table.descriptor, Values: make([]any, len(k.table.descriptor))}
	for i, a := range e.Descriptor {
		e.Values[i] = zero(a.Type())
		for _, f := range k.fields {
			if f.id == a.ID {
				e.Values[i] = marshalValue(r.Field(f.index), f)
			}
		}
	}
	return e
}

func zero(t Type) any {
	switch t {
	case Ulong:
		return uint32(0)
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

func marshalValue(r reflect.Value, f field) any {
	switch r.Kind() {
	case reflect.Uint32:
		return uint32(r.Uint())
	case reflect.Bool:
		return r.Bool()
	case reflect.Float64:
		return r.Float()
	case reflect.String:
		return r.String()
	case reflect.Slice:
		return marshalList(r, f.list)
	case reflect.Pointer:
		if r.IsNil() {
			return (*Element)(nil)
		}
		return marshal(r.Elem(), kindOf(r.Type().Elem()), SubObject)
	default:
		mistake("%s cannot be a %v", f.name, r.Type())
		return nil
	}
}

// AttributeError is an attribute of another type than it should have.
type AttributeError struct {
	Attribute string
	Got       any
	Want      string
}

func (e *AttributeError) Error() string {
	return fmt.Sprintf("%s is a %T, expected %s", e.Attribute, e.Got, e.Want)
}

// Unmarshal fills a struct in from an element. Attributes that it lacks are zero.
func Unmarshal(e *Element, v any) error {
	r := reflect.ValueOf(v).Elem()
	return unmarshal(e, r, kindOf(r.Type()))
}

// UnmarshalList makes a slice of structs of a list.
func UnmarshalList[T any](l *List) ([]T, error) {
	var v []T
	err := unmarshalList(l, reflect.ValueOf(&v).Elem())
	return v, err
}

func unmarshal(e *Element, r reflect.Value, k kind) error {
	for _, f := range k.fields {
		at := e.Descriptor.index(f.id)
		if at < 0 {
			continue
		}
		if err := unmarshalValue(e.Values[at], r.Field(f.index), f); err != nil {
			return err
		}
	}
	return nil
}

func unmarshalList(l *List, r reflect.Value) error {
	if l == nil {
		r.SetZero()
		return nil
	}
	k := kindOf(r.Type().Elem())
	r.Set(reflect.MakeSlice(r.Type(), len(l.Elements), len(l.Elements)))
	for i, e := range l.Elements {
		if err := unmarshal(e, r.Index(i), k); err != nil {
			return err
		}
	}
	return nil
}

func unmarshalValue(v any, r reflect.Value, f field) error {
	wrong := func(want string) error { return &AttributeError{f.name, v, want} }
	switch r.Kind() {
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
		l, ok := v.(*List)
		if !ok {
			return wrong("a list")
		}
		return unmarshalList(l, r)
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
		return unmarshal(x, r.Elem(), kindOf(r.Type().Elem()))
	default:
		mistake("%s cannot be a %v", f.name, r.Type())
	}
	return nil
}
