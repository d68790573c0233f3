package expression

import (
	"fmt"
	"strings"
)

// Kind says how names are compared (complex(5), type).
type Kind uint8

// The kinds of names.
const (
	String  Kind = iota // case matters: STRING and RESTRING, names of queues
	CString             // case does not matter: CSTRING
	Host                // like CString, with the cluster's rule for domains: HOST
)

// maxLength is the longest text that the original takes as an expression.
const maxLength = 2047

// Expression is a compiled wildcard expression (sge_types(5), expression). A nil one matches
// nothing. Grid Engine treats invalid expressions this way if the submission does not refuse them.
type Expression struct {
	text  string
	nodes []node // the root comes last
	kind  Kind
	hosts HostNames
}

type operator uint8

const (
	opPattern operator = iota
	opName
	opNot
	opAnd
	opOr
)

// node is a part of an expression. Its operands are nodes before it.
type node struct {
	op      operator
	a, b    int32
	name    string   // opName, as compared
	pattern *Pattern // opPattern
}

// SyntaxError says where an expression is wrong.
type SyntaxError struct {
	Text     string // the whole expression
	Position int    // bytes read when it was noticed, the number that the original gives
	Problem  string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("cannot read the expression %q: %s at position %d", e.Text, e.Problem, e.Position)
}

// Compile reads an expression on names of a kind other than Host, or on host names of a cluster
// without domains.
func Compile(kind Kind, text string) (*Expression, error) {
	return compile(kind, HostNames{}, text)
}

// CompileHost reads an expression on host names.
func CompileHost(hosts HostNames, text string) (*Expression, error) {
	return compile(Host, hosts, text)
}

func compile(kind Kind, hosts HostNames, text string) (*Expression, error) {
	if len(text) > maxLength {
		return nil, &SyntaxError{Text: text, Position: maxLength, Problem: fmt.Sprintf("too long, expected at most %d bytes", maxLength)}
	}
	e := &Expression{text: text, kind: kind, hosts: hosts}
	// Without any special character the text is one name, blanks included.
	if Plain(text) {
		e.nodes = []node{e.word(text)}
		return e, nil
	}
	p := parser{e: e}
	p.next()
	if _, err := p.or(); err != nil {
		return nil, err
	}
	if p.token != tokenEnd {
		return nil, p.unexpected("an operator")
	}
	return e, nil
}

// Plain reports whether a text is a single name: it has no special character of expressions.
func Plain(text string) bool { return !strings.ContainsAny(text, "!|&()*?[]") }

// word returns the node of a single pattern or name.
func (e *Expression) word(s string) node {
	if strings.ContainsAny(s, "*?[]") {
		return node{op: opPattern, pattern: CompilePattern(e.kind != String, s)}
	}
	switch e.kind {
	case CString:
		s = lower(s)
	case Host:
		s = e.hosts.Normalize(s)
	}
	return node{op: opName, name: s}
}

// Match reports whether the expression matches a value. The value is text, never
// a pattern.
func (e *Expression) Match(value string) bool {
	if e == nil || len(e.nodes) == 0 {
		return false
	}
	return e.match(int32(len(e.nodes)-1), value)
}

func (e *Expression) match(at int32, value string) bool {
	switch n := &e.nodes[at]; n.op {
	case opName:
		return e.equal(n.name, value)
	case opPattern:
		return n.pattern.Match(value)
	case opNot:
		return !e.match(n.a, value)
	case opAnd:
		return e.match(n.a, value) && e.match(n.b, value)
	default:
		return e.match(n.a, value) || e.match(n.b, value)
	}
}

func (e *Expression) equal(name, value string) bool {
	switch e.kind {
	case CString:
		return equalFold(name, value)
	case Host:
		return e.hosts.equal(name, value)
	default:
		return name == value
	}
}

// Name returns the only value that the expression matches, in the form for comparisons, if the
// expression is a plain name. A caller with an index of names need not try all names.
func (e *Expression) Name() (name string, ok bool) {
	if e == nil || len(e.nodes) != 1 || e.nodes[0].op != opName {
		return "", false
	}
	return e.nodes[0].name, true
}

// String returns the expression as it was written.
func (e *Expression) String() string {
	if e == nil {
		return ""
	}
	return e.text
}

// Format returns the expression with all its structure in parentheses, for tests and
// explanations. It reads back to an expression that matches the same.
func (e *Expression) Format() string {
	if e == nil {
		return ""
	}
	if len(e.nodes) == 1 {
		return e.text
	}
	var b strings.Builder
	e.format(&b, int32(len(e.nodes)-1))
	return b.String()
}

func (e *Expression) format(b *strings.Builder, at int32) {
	switch n := e.nodes[at]; n.op {
	case opName:
		b.WriteString(n.name)
	case opPattern:
		b.WriteString(n.pattern.text)
	case opNot:
		b.WriteByte('!')
		e.format(b, n.a)
	default:
		b.WriteByte('(')
		e.format(b, n.a)
		if n.op == opAnd {
			b.WriteByte('&')
		} else {
			b.WriteByte('|')
		}
		e.format(b, n.b)
		b.WriteByte(')')
	}
}
