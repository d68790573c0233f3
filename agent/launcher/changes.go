package launcher

import (
	"encoding/json"
	"fmt"
	"reflect"

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

// changesOf returns the fields of a description that differ from those of another one, by their names. JSON of a whole
// description takes longer than all files of its job.
func changesOf(from, to *job.Description) map[string]any {
	changes := map[string]any{}
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			changes[a.Type().Field(i).Name] = y
		}
	}
	return changes
}

// rawChanges returns changesOf as JSON.
func rawChanges(from, to *job.Description) (map[string]json.RawMessage, error) {
	raw := map[string]json.RawMessage{}
	for name, value := range changesOf(from, to) {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		raw[name] = text
	}
	return raw, nil
}

// change sets fields of a description.
func change(d *job.Description, changes map[string]json.RawMessage) error {
	v := reflect.ValueOf(d).Elem()
	for name, text := range changes {
		field := v.FieldByName(name)
		if !field.IsValid() {
			return fmt.Errorf("the launcher has changed the field %q of a description, which is unknown", name)
		}
		value := reflect.New(field.Type())
		if err := decode(text, value.Interface()); err != nil {
			return fmt.Errorf("the field %s of a description: %w", name, err)
		}
		field.Set(value.Elem())
	}
	return nil
}
