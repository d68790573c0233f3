package launcher

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/execd-project/execd/job"
)

// copyOf returns a copy of a description in which the launcher does not change anything: it changes fields, also behind
// pointers, and no elements of lists.
func copyOf(d *job.Description) *job.Description {
	c := *d
	v := reflect.ValueOf(&c).Elem()
	for _, field := range v.Fields() {
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			to := reflect.New(field.Type().Elem())
			to.Elem().Set(field.Elem())
			field.Set(to)
		}
	}
	return &c
}

// changesOf returns the fields of a value that differ from those of another one, in their compact form: a bit for each
// exported field, in whole bytes, and the fields that differ. Fields that became zero have their own bits.
func changesOf(from, to any) ([]byte, error) {
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	fields, err := changeFields(a.Type())
	if err != nil {
		return nil, err
	}
	size := max((len(fields)+7)/8, 1)
	text := make([]byte, 2*size, 256)
	var x, y []byte
	for i := range fields {
		f := &fields[i]
		is, will := a.Field(f.index), b.Field(f.index)
		isZero, zero := f.zero(is), f.zero(will)
		switch {
		case zero && !isZero:
			text[size+i/8] |= 1 << (i % 8)
		case !zero && (isZero || !equal(is, will)):
			y = f.write(y[:0], will)
			if !isZero {
				x = f.write(x[:0], is)
			}
			if isZero || !slices.Equal(x, y) {
				text[i/8] |= 1 << (i % 8)
				text = append(text, y...)
			}
		}
	}
	return text, nil
}

// equal reports whether two values are equal, for the types of the largest fields and of most of the others. If it is
// false, they may be equal nevertheless.
func equal(a, b reflect.Value) bool {
	switch a.Type() {
	case typeOfStrings:
		x, _ := reflect.TypeAssert[[]string](a)
		y, _ := reflect.TypeAssert[[]string](b)
		return slices.Equal(x, y)
	case typeOfLimits:
		x, _ := reflect.TypeAssert[job.Limits](a)
		y, _ := reflect.TypeAssert[job.Limits](b)
		return x == y
	}
	return a.Kind() == reflect.String && a.String() == b.String()
}

var typeOfLimits = reflect.TypeFor[job.Limits]()

// change sets fields of a value as changesOf has found them.
func change(pointer any, changes []byte) error {
	v := reflect.ValueOf(pointer).Elem()
	fields, err := changeFields(v.Type())
	if err != nil {
		return err
	}
	size := max((len(fields)+7)/8, 1)
	from := &compactReader{text: changes}
	bits, err := from.take(2 * size)
	if err != nil {
		return err
	}
	from.text = append(slices.Clone(bits[:size]), from.text...)
	err = from.fields(fields, func(f *compactField) error {
		field := v.Field(f.index)
		field.SetZero()
		if err := f.read(from, field); err != nil {
			return err
		}
		if f.zero(field) {
			return errors.New("it is sent although it is zero")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range 8 * size {
		switch on := bits[size+i/8]&(1<<(i%8)) != 0; {
		case !on:
		case i >= len(fields):
			return fmt.Errorf("unknown field %d", i)
		default:
			v.Field(fields[i].index).SetZero()
		}
	}
	return from.end()
}

var fieldsOfChanges sync.Map // of []compactField, by reflect.Type

func changeFields(t reflect.Type) ([]compactField, error) {
	if f, ok := fieldsOfChanges.Load(t); ok {
		return f.([]compactField), nil
	}
	fields, err := compactFields(t)
	if err == nil {
		fieldsOfChanges.Store(t, fields)
	}
	return fields, err
}
