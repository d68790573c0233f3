package expression

// The grammar of Grid Engine. It is stricter than the one in sge_types(5), which allows any text
// after a parenthesis. Its terminals take precedence over everything: they can be neither quoted
// nor escaped, and they end bracket expressions ("lx2[4|6]-amd64" means "lx2[4" or "6]-amd64").
//
//	or     = and { "|" and }
//	and    = simple { "&" simple }
//	simple = "!" simple | "(" or ")" | word
//
// A word ends at the next terminal or blank. Blanks separate words and have no other meaning.

type token uint8

const (
	tokenEnd token = iota
	tokenWord
	tokenTerminal
)

type parser struct {
	e     *Expression
	at    int    // bytes read, the current token included
	token token  // the current token
	word  string // of tokenWord
	term  byte   // of tokenTerminal
}

func isTerminal(c byte) bool {
	return c == '!' || c == '|' || c == '&' || c == '(' || c == ')'
}

// next reads the next token.
func (p *parser) next() {
	s := p.e.text
	for p.at < len(s) && s[p.at] == ' ' {
		p.at++
	}
	begin := p.at
	if begin == len(s) {
		p.token = tokenEnd
		return
	}
	p.at++
	if isTerminal(s[begin]) {
		p.token, p.term = tokenTerminal, s[begin]
		return
	}
	for p.at < len(s) && s[p.at] != ' ' && !isTerminal(s[p.at]) {
		p.at++
	}
	p.token, p.word = tokenWord, s[begin:p.at]
}

func (p *parser) is(terminal byte) bool { return p.token == tokenTerminal && p.term == terminal }

func (p *parser) unexpected(expected string) error {
	problem := "it ends, expected " + expected
	switch p.token {
	case tokenWord:
		problem = "unexpected \"" + p.word + "\", expected " + expected
	case tokenTerminal:
		problem = "unexpected \"" + string(p.term) + "\", expected " + expected
	}
	return &SyntaxError{Text: p.e.text, Position: p.at, Problem: problem}
}

func (p *parser) add(n node) int32 {
	p.e.nodes = append(p.e.nodes, n)
	return int32(len(p.e.nodes) - 1)
}

func (p *parser) or() (int32, error)  { return p.chain('|', opOr, p.and) }
func (p *parser) and() (int32, error) { return p.chain('&', opAnd, p.simple) }

// chain reads operands joined by one operator.
func (p *parser) chain(sign byte, op operator, operand func() (int32, error)) (int32, error) {
	a, err := operand()
	for err == nil && p.is(sign) {
		var b int32
		p.next()
		if b, err = operand(); err == nil {
			a = p.add(node{op: op, a: a, b: b})
		}
	}
	return a, err
}

func (p *parser) simple() (int32, error) {
	switch {
	case p.token == tokenWord:
		at := p.add(p.e.word(p.word))
		p.next()
		return at, nil
	case p.is('!'):
		p.next()
		a, err := p.simple()
		if err != nil {
			return 0, err
		}
		return p.add(node{op: opNot, a: a}), nil
	case p.is('('):
		p.next()
		a, err := p.or()
		if err != nil {
			return 0, err
		}
		if !p.is(')') {
			return 0, p.unexpected(`an operator or ")"`)
		}
		p.next()
		return a, nil
	}
	return 0, p.unexpected("a name or pattern")
}
