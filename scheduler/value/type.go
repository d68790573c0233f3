package value

import (
	"fmt"
	"strings"
)

// Type is the type of an attribute: the form of its values and their order (complex(5), type).
type Type uint8

// The types of complex(5).
const (
	Int Type = iota + 1
	Double
	Time
	Memory
	Bool
	String
	CString
	REString
	Host
	types
)

var typeNames = [types]string{
	Int: "INT", Double: "DOUBLE", Time: "TIME", Memory: "MEMORY", Bool: "BOOL",
	String: "STRING", CString: "CSTRING", REString: "RESTRING", Host: "HOST",
}

// ParseType reads the keyword of a type, in any case.
func ParseType(s string) (Type, error) {
	for t, name := range typeNames {
		if name != "" && strings.EqualFold(s, name) {
			return Type(t), nil
		}
	}
	return 0, fmt.Errorf("cannot read the type %q: expected one of %s", s, strings.Join(typeNames[1:], ", "))
}

// String returns the keyword of the type.
func (t Type) String() string {
	if t < types {
		return typeNames[t]
	}
	return ""
}

// IsNumeric reports whether values are numbers, BOOL included.
func (t Type) IsNumeric() bool { return Int <= t && t <= Bool }

// IsText reports whether values are names, and requests expressions on them.
func (t Type) IsText() bool { return String <= t && t <= Host }

// Relop is the relation between a request and an offer (complex(5), relop).
type Relop uint8

// The relational operators of complex(5).
const (
	Equal Relop = iota + 1
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	Exclusive // EXCL
	relops
)

var relopNames = [relops]string{
	Equal: "==", NotEqual: "!=", Less: "<", LessEqual: "<=", Greater: ">", GreaterEqual: ">=", Exclusive: "EXCL",
}

// ParseRelop reads an operator, EXCL in any case.
func ParseRelop(s string) (Relop, error) {
	for r, name := range relopNames {
		if name != "" && strings.EqualFold(s, name) {
			return Relop(r), nil
		}
	}
	return 0, fmt.Errorf("cannot read the relational operator %q: expected one of %s", s, strings.Join(relopNames[1:], ", "))
}

// String returns the operator in the notation of complex(5).
func (r Relop) String() string {
	if r < relops {
		return relopNames[r]
	}
	return ""
}

// Holds reports whether a relation holds. left is a request and right the offer, or left is a load and
// right its threshold.
func (r Relop) Holds(left, right float64) bool {
	switch r {
	case Equal:
		return left == right
	case NotEqual:
		return left != right
	case Less:
		return left < right
	case LessEqual:
		return left <= right
	case Greater:
		return left > right
	case GreaterEqual:
		return left >= right
	case Exclusive:
		// A job that requests exclusive use needs the resource; any value satisfies other jobs.
		// Whether other jobs use the place is checked with the usage.
		return left == 0 || left <= right
	}
	return false
}
