package qconf

import (
	"errors"
	"fmt"
)

// problems returns the errors of one value: the errors that err joins, in order. A list has an
// error for each invalid item.
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

// within adds the place to each problem.
func within(where string, err error) error {
	all := problems(err)
	for i, e := range all {
		all[i] = fmt.Errorf("%s: %w", where, e)
	}
	return errors.Join(all...)
}

// whole returns an object without errors, or nil: the valid part of an object with errors only
// serves to find further errors.
func whole[O any](o *O, err error) (*O, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}
