package binding

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/limits/topology"
)

// Config is a value of "binding" in the config file of a job directory, as written by this agent or
// by the original's execd:
//
//	[env_|pe_]explicit:S,C[:S,C...]:TOPO
//	[env_|pe_]linear:N:S,C:TOPO
//	[env_|pe_]striding:N:STEP:S,C:TOPO
//
// TOPO is the host's topology string with the job's cores in lower case. The zero value is no
// binding, "NULL".
type Config struct {
	Instance     Instance
	Strategy     Strategy
	Amount, Step int             // linear, striding
	Start        topology.Pair   // linear, striding
	Pairs        []topology.Pair // explicit
	Shape        topology.Shape  // nil if the text has none
}

// String formats the value for the config file.
func (c Config) String() string {
	s := c.Instance.prefix() + c.Strategy.String()
	switch c.Strategy {
	case Linear:
		s += ":" + strconv.Itoa(c.Amount) + ":" + c.Start.String()
	case Striding:
		s += ":" + strconv.Itoa(c.Amount) + ":" + strconv.Itoa(c.Step) + ":" + c.Start.String()
	case Explicit:
		s += ":" + topology.FormatPairs(c.Pairs)
	default:
		return "NULL"
	}
	if c.Shape != nil {
		s += ":" + c.Shape.String()
	}
	return s
}

// ParseConfig reads the format of String. "" and "NULL" are no binding.
func ParseConfig(text string) (Config, error) {
	fail := func(why string) (Config, error) {
		return Config{}, errors.New("cannot read binding " + strconv.Quote(text) + ": " + why)
	}
	if text == "" || text == "NULL" {
		return Config{}, nil
	}
	var c Config
	rest := text
	for _, i := range []Instance{Env, PE} {
		if after, found := strings.CutPrefix(rest, i.prefix()); found {
			c.Instance, rest = i, after
			break
		}
	}
	fields := strings.Split(rest, ":")
	name, fields := fields[0], fields[1:]
	if n := len(fields); n > 0 && (strings.HasPrefix(fields[n-1], "S") || strings.HasPrefix(fields[n-1], "s")) {
		sh, err := topology.ParseShape(fields[n-1])
		if err != nil {
			return fail(err.Error())
		}
		c.Shape, fields = sh, fields[:n-1]
	}

	numbers := 0 // number of numbers before the first core
	switch name {
	case "explicit":
		c.Strategy = Explicit
	case "linear":
		c.Strategy, numbers = Linear, 1
	case "striding":
		c.Strategy, numbers = Striding, 2
	default:
		return fail("unknown strategy " + strconv.Quote(name))
	}
	if len(fields) <= numbers {
		return fail("it ends before the first core")
	}
	for i, f := range fields[:numbers] {
		n, err := strconv.ParseUint(f, 10, 31)
		if err != nil || n < 1 {
			return fail(strconv.Quote(f) + " is not a number of cores")
		}
		if i == 0 {
			c.Amount = int(n)
		} else {
			c.Step = int(n)
		}
	}
	pairs, err := topology.ParsePairs(strings.Join(fields[numbers:], ":"))
	if err != nil {
		return fail(err.Error())
	}
	switch {
	case len(pairs) == 0:
		return fail("it names no core")
	case c.Strategy == Explicit:
		c.Pairs = pairs
	case len(pairs) > 1:
		return fail("expected one first core")
	default:
		c.Start = pairs[0]
	}
	return c, nil
}

// Resolve finds the cores on the host, for a supervisor that the original's execd has started. No
// binding returns the zero Binding. Mems of the result is empty. An error is a *RefusedError.
//
// For linear and striding entries Resolve uses the cores in lower case, which are those that execd
// accounts. The first core of a striding entry is wrong in the original: it has the number of the
// socket instead of that of the core.
func (c Config) Resolve(t topology.Topology) (Binding, error) {
	refuse := func(why Reason, core topology.Pair, detail string) (Binding, error) {
		return Binding{}, &RefusedError{Request: c.String(), Reason: why, Core: core, Detail: detail}
	}
	none := topology.Pair{}
	if c.Strategy == None {
		return Binding{}, nil
	}
	if c.Shape != nil && !c.Shape.SameHost(t.Shape()) {
		return refuse(OtherHost, none, t.Shape().String())
	}
	cores := c.Pairs
	switch {
	case c.Strategy == Explicit:
	case c.Shape != nil:
		if cores = c.Shape.InUse(); len(cores) != c.Amount {
			return refuse(Malformed, none, strconv.Itoa(len(cores))+" cores are in lower case")
		}
	default:
		cores = nil
		pairs, step := t.Pairs(), max(c.Step, 1)
		at := slices.Index(pairs, c.Start)
		if at < 0 {
			return refuse(NoSuchCore, c.Start, "")
		}
		for ; len(cores) < c.Amount; at += step {
			if at >= len(pairs) {
				return refuse(TooFewCores, none, "")
			}
			cores = append(cores, pairs[at])
		}
	}
	for i, p := range cores {
		if slices.Contains(cores[:i], p) {
			return refuse(Malformed, none, "core "+p.String()+" twice")
		}
		if _, ok := t.Core(p); !ok {
			return refuse(NoSuchCore, p, "")
		}
	}
	b := bind(t, c.Instance, slices.Clone(cores))
	if c.Shape != nil && !slices.Equal(b.Shape.InUse(), c.Shape.InUse()) {
		return refuse(Malformed, none, "other cores are in lower case")
	}
	return b, nil
}
