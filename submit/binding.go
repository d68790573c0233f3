package submit

import (
	"errors"
	"strconv"
	"strings"
)

// BindingInstance says which program does the core binding (sge_submit(1), -binding).
type BindingInstance string

// The instances of -binding.
const (
	BindSet BindingInstance = "set" // the shepherd binds itself, and so the job
	BindEnv BindingInstance = "env" // only SGE_BINDING is set
	BindPE  BindingInstance = "pe"  // the cores are written to the pe_hostfile
)

// BindingStrategy is the way in which cores are chosen.
type BindingStrategy string

// The strategies of -binding.
const (
	Linear   BindingStrategy = "linear"
	Striding BindingStrategy = "striding"
	Explicit BindingStrategy = "explicit"
)

// Core is a logical core; both numbers start at 0 (hwloc(7)).
type Core struct {
	Socket, Core int
}

// Binding is a request for core binding. It is a hint: if the host cannot satisfy it, the job runs
// unbound.
type Binding struct {
	Instance BindingInstance
	Strategy BindingStrategy
	// Amount is the number of cores. 0, allowed for linear only, means as many as the job has slots
	// on the host.
	Amount int
	Step   int    // striding: distance between two cores, at least 1
	Start  *Core  // linear, striding: the first core; nil to search for it
	Cores  []Core // explicit: the cores, each once
}

// maxBinding limits amounts, steps, sockets and cores. No real host comes near it.
const maxBinding = 1 << 20

// ParseBinding reads the value of -binding, one or two words:
//
//	[set|env|pe] linear[:[number|slots][:socket,core]]
//	[set|env|pe] striding:number:step[:socket,core]
//	[set|env|pe] explicit:socket,core[:socket,core]...
func ParseBinding(s string) (Binding, error) {
	b := Binding{Instance: BindSet}
	words := strings.Fields(s)
	if len(words) == 2 {
		b.Instance = BindingInstance(words[0])
		words = words[1:]
	}
	if len(words) != 1 {
		return Binding{}, errors.New("expected [set|env|pe] and a strategy, got " + strconv.Itoa(len(words)) + " words")
	}
	switch b.Instance {
	case BindSet, BindEnv, BindPE:
	default:
		return Binding{}, errors.New("unknown instance " + strconv.Quote(string(b.Instance)) + ", expected set, env or pe")
	}
	strategy, rest, more := strings.Cut(words[0], ":")
	var parts []string
	if more {
		parts = strings.Split(rest, ":")
	}
	b.Strategy = BindingStrategy(strategy)
	var err error
	switch b.Strategy {
	case Linear:
		err = b.parseLinear(parts)
	case Striding:
		err = b.parseStriding(parts)
	case Explicit:
		err = b.parseExplicit(parts)
	default:
		err = errors.New("unknown strategy " + strconv.Quote(strategy) + ", expected linear, striding or explicit")
	}
	if err != nil {
		return Binding{}, err
	}
	return b, nil
}

func (b *Binding) parseLinear(parts []string) error {
	if len(parts) == 0 || len(parts) == 1 && parts[0] == "" {
		return nil
	}
	if parts[0] != "slots" {
		var err error
		if b.Amount, err = positive(parts[0], maxBinding); err != nil {
			return errors.New("number of cores: " + err.Error())
		}
	}
	return b.parseStart(parts[1:])
}

func (b *Binding) parseStriding(parts []string) error {
	if len(parts) < 2 {
		return errors.New("striding needs a number of cores and a step, as in striding:2:4")
	}
	var err error
	if b.Amount, err = positive(parts[0], maxBinding); err != nil {
		return errors.New("number of cores: " + err.Error())
	}
	if b.Step, err = positive(parts[1], maxBinding); err != nil {
		return errors.New("step: " + err.Error())
	}
	return b.parseStart(parts[2:])
}

// parseStart reads the optional last part, the first core.
func (b *Binding) parseStart(parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	if len(parts) > 1 {
		return errors.New("unexpected " + strconv.Quote(strings.Join(parts[1:], ":")) + " after the first core")
	}
	c, err := parseCore(parts[0])
	if err != nil {
		return err
	}
	b.Start = &c
	return nil
}

func (b *Binding) parseExplicit(parts []string) error {
	if len(parts) == 0 {
		return errors.New("explicit needs at least one socket,core pair, as in explicit:0,0:0,1")
	}
	seen := map[Core]bool{}
	for _, part := range parts {
		c, err := parseCore(part)
		if err != nil {
			return err
		}
		if seen[c] {
			return errors.New("the core " + c.String() + " is named twice")
		}
		seen[c] = true
		b.Cores = append(b.Cores, c)
	}
	return nil
}

func parseCore(s string) (Core, error) {
	socket, core, ok := strings.Cut(s, ",")
	if !ok {
		return Core{}, errors.New(strconv.Quote(s) + " is not a socket,core pair")
	}
	var c Core
	var err error
	if c.Socket, err = digits(socket, maxBinding); err != nil {
		return Core{}, errors.New("socket of " + strconv.Quote(s) + ": " + err.Error())
	}
	if c.Core, err = digits(core, maxBinding); err != nil {
		return Core{}, errors.New("core of " + strconv.Quote(s) + ": " + err.Error())
	}
	return c, nil
}

// String returns "socket,core".
func (c Core) String() string { return strconv.Itoa(c.Socket) + "," + strconv.Itoa(c.Core) }

// String returns the request in the notation of ParseBinding, with the instance only if it is not
// the default.
func (b Binding) String() string {
	var s strings.Builder
	if b.Instance != BindSet && b.Instance != "" {
		s.WriteString(string(b.Instance) + " ")
	}
	s.WriteString(string(b.Strategy))
	switch b.Strategy {
	case Linear:
		if b.Amount > 0 {
			s.WriteString(":" + strconv.Itoa(b.Amount))
		} else {
			s.WriteString(":slots")
		}
	case Striding:
		s.WriteString(":" + strconv.Itoa(b.Amount) + ":" + strconv.Itoa(b.Step))
	}
	if b.Start != nil {
		s.WriteString(":" + b.Start.String())
	}
	for _, c := range b.Cores {
		s.WriteString(":" + c.String())
	}
	return s.String()
}
