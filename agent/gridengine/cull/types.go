package cull

import "fmt"

// Type is the type of an attribute.
type Type uint8

// The types, with their numbers on the wire.
const (
	Double  Type = 2  // float64
	Ulong   Type = 3  // uint32
	Bool    Type = 6  // bool
	String  Type = 8  // string, without NUL; NULL and empty are the same
	ListOf  Type = 9  // *List, nil for NULL
	Object  Type = 10 // *Element, nil for NULL
	Ref     Type = 11 // nothing: it has no value on the wire
	Host    Type = 12 // string, the name of a host
	Ulong64 Type = 13 // uint64
)

var typeNames = map[Type]string{
	Double: "double", Ulong: "ulong", Bool: "bool", String: "string", ListOf: "list", Object: "object", Ref: "ref", Host: "host", Ulong64: "ulong64",
}

// String returns the name of the type.
func (t Type) String() string {
	if n, ok := typeNames[t]; ok {
		return n
	}
	return fmt.Sprintf("type %d", t)
}

// Attribute describes one attribute of an element.
type Attribute struct {
	ID   uint32
	Word uint32 // type and flags, as they are on the wire
}

// Type returns the type without its flags.
func (a Attribute) Type() Type { return Type(a.Word & 0xff) }

// Descriptor are the attributes of an element, in their order. An id may be there twice.
type Descriptor []Attribute

// index returns the position of an attribute, or -1.
func (d Descriptor) index(id uint32) int {
	for i, a := range d {
		if a.ID == id {
			return i
		}
	}
	return -1
}

// Status says where an element is.
type Status uint32

// The states of elements.
const (
	Free      Status = 1 // outside of a list; its descriptor is packed with it
	InList    Status = 2
	SubObject Status = 8
)

// Element has a value for each attribute of its descriptor.
type Element struct {
	Status     Status
	Descriptor Descriptor
	Values     []any // of the Go type that the Type of the attribute says
}

// List is a list of elements with the same attributes.
type List struct {
	Name       string // means nothing
	Changed    bool   // without meaning on the wire
	Descriptor Descriptor
	Elements   []*Element
}

// Value returns the value of an attribute, or nil if the element does not have it.
func (e *Element) Value(id uint32) any {
	if i := e.Descriptor.index(id); i >= 0 {
		return e.Values[i]
	}
	return nil
}
