package submit

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// bindingUnits holds the values of -bamount, -bunit, -btype and -binstance, the options that
// replace -binding in Gridware Cluster Scheduler 9.1. They are accepted if -binding has an
// equivalent, and refused otherwise. NONE requests nothing.
type bindingUnits struct {
	amount   int             // of cores; 0 without a request for binding
	perHost  bool            // the amount is per host, not per slot
	instance BindingInstance // empty for BindSet
}

// none is the value of these options that requests nothing.
const none = "NONE"

// unitOptions are the options that alterUnits replaces, and -scope, which changes nothing.
var unitOptions = []string{"-bamount", "-bfilter", "-binstance", "-bsort", "-bstart", "-bstop", "-bstrategy", "-btype", "-bunit", "-scope"}

// instead is the end of errors of these options.
const instead = "; use -binding linear:n, striding:n:step or explicit:socket,core"

func setBindingAmount(b *builder, s setting) (err error) {
	b.units.amount, err = digits(s.value(), maxBinding)
	return err
}

func setBindingUnit(_ *builder, s setting) error {
	switch strings.ToUpper(s.value()) {
	case "C", "CC", none: // a core; CC is one that is not an efficiency core
		return nil
	}
	return errors.New("the unit " + strconv.Quote(s.value()) + " is not supported, expected C, a core" + instead)
}

func setBindingType(b *builder, s setting) error {
	switch s.value() {
	case "slot", "host", none:
		b.units.perHost = s.value() == "host"
		return nil
	}
	return errors.New(strconv.Quote(s.value()) + " is neither slot nor host")
}

func setBindingInstance(b *builder, s setting) error {
	switch i := BindingInstance(s.value()); i {
	case BindSet, BindEnv, BindPE:
		b.units.instance = i
		return nil
	case none:
		b.units.instance = ""
		return nil
	}
	return errors.New("unknown instance " + strconv.Quote(s.value()) + ", expected set, env or pe")
}

func setBindingStrategy(_ *builder, s setting) error {
	switch s.value() {
	case "packed", "pack", none: // what linear does
		return nil
	}
	return errors.New("the strategy " + strconv.Quote(s.value()) + " is not supported, expected packed" + instead)
}

// refuseUnlessNone refuses an option without an equivalent, unless its value is none.
func refuseUnlessNone(_ *builder, s setting) error {
	if v := s.value(); v == "" || strings.EqualFold(v, none) {
		return nil
	}
	return errors.New("the option is not supported" + instead)
}

// setScope accepts the scope of all tasks, which is the default.
func setScope(_ *builder, s setting) error {
	switch s.value() {
	case "global":
		return nil
	case "master", "slave":
		return errors.New("requests for " + s.value() + " tasks alone are not supported: -masterq names queues for the master task, and other requests are for all tasks")
	}
	return errors.New(strconv.Quote(s.value()) + " is no scope, expected global, master or slave")
}

// bindUnits converts these options into a request as for -binding.
func (b *builder) bindUnits() error {
	u := b.units
	if u.amount == 0 {
		return nil
	}
	binding := &Binding{Instance: cmp.Or(u.instance, BindSet), Strategy: Linear, Amount: u.amount}
	if b.req.PE != nil && !u.perHost {
		if u.amount > 1 {
			return errors.New("-bamount " + strconv.Itoa(u.amount) + ": a parallel job cannot have several cores for each slot; use -btype host, or -binding linear:n")
		}
		binding.Amount = 0 // as many cores as slots
	}
	b.req.Binding = binding
	return nil
}

// alterUnits converts these options into a change of -binding. An amount of 0 removes the binding.
func (b *builder) alterUnits(a *Alteration) error {
	const binding = "-binding"
	u, changes, given := b.units, a.Has("-bamount"), a.Options
	a.Options = slices.DeleteFunc(slices.Clone(a.Options), func(o string) bool { return slices.Contains(unitOptions, o) })
	if !changes {
		if len(a.Options) == 0 && len(given) > 0 {
			return errors.New(strings.Join(given, ", ") + ": nothing is to be changed, expected -bamount, or -l or -q for -scope")
		}
		return nil
	}
	if u.amount > 1 && !u.perHost {
		// qalter does not know how many slots the jobs have.
		return errors.New("-bamount " + strconv.Itoa(u.amount) + ": qalter sets one core for each slot, or with -btype host several for the host; or use -binding linear:n")
	}
	if !a.Has(binding) {
		a.Options = append(a.Options, binding)
	}
	b.req.Binding = nil
	if u.amount > 0 {
		b.req.Binding = &Binding{Instance: cmp.Or(u.instance, BindSet), Strategy: Linear}
		if u.perHost {
			b.req.Binding.Amount = u.amount
		}
	}
	return nil
}
