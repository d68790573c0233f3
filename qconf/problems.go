package qconf

import (
	"errors"
	"fmt"
)

// problems returns the things that are wrong with one value: the errors that err
// joins, in order. A list says of each of its items what is wrong with it.
func problems(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, problems(e)...)
	}
	return all
}

// within says of each problem where it is.
func within(where string, err error) error {
	all := problems(err)
	for i, e := range all {
		all[i] = fmt.Errorf("%s: %w", where, e)
	}
	return errors.Join(all...)
}

// whole returns an object without errors, or none: what is sound of one that has
// errors is for finding more of them.
func whole[O any](o *O, err error) (*O, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}
