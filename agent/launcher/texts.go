package launcher

import (
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/execd-project/execd/job"
)

// texts are the strings of a description that are not UTF-8, by their position in eachText. JSON would replace their other
// bytes. Qrsh of Grid Engine, for example, separates the words of a command in a variable by the byte 255.
type texts map[int][]byte

// textsOf returns the texts of a description; nil for none.
func textsOf(d *job.Description) texts {
	var t texts
	n := 0
	eachText(reflect.ValueOf(d), func(v reflect.Value) {
		if s := v.String(); !utf8.ValidString(s) {
			if t == nil {
				t = texts{}
			}
			t[n] = []byte(s)
		}
		n++
	})
	return t
}

// restore writes the texts into a description that has come as JSON.
func (t texts) restore(d *job.Description) error {
	if len(t) == 0 || d == nil {
		return nil
	}
	n, found := 0, 0
	eachText(reflect.ValueOf(d), func(v reflect.Value) {
		if s, ok := t[n]; ok {
			v.SetString(string(s))
			found++
		}
		n++
	})
	if found != len(t) {
		return fmt.Errorf("there are %d texts for a description with %d strings, of which %d are there", len(t), n, found)
	}
	return nil
}

// eachText calls f for each string in a value, in the order of fields and elements.
func eachText(v reflect.Value, f func(reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		f(v)
	case reflect.Pointer:
		eachText(v.Elem(), f)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				eachText(field, f)
			}
		}
	case reflect.Slice, reflect.Array:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer:
			for i := range v.Len() {
				eachText(v.Index(i), f)
			}
		default:
		}
	default:
	}
}
