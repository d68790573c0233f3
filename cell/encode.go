package cell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// number is a number that JSON cannot represent in all cases: NaN and infinity are written as
// strings.
type number float64

// MarshalJSON writes the shortest text that gives the same number.
func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

// UnmarshalJSON reads the format of MarshalJSON.
func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number", text)
	}
	*n = number(f)
	return nil
}

// notUnicode is the text that encoding/json writes for an invalid byte. It never writes the
// replacement character itself in this form.
var notUnicode = []byte(`\ufffd`)

// encode returns a record in its stored form. Texts that are not valid UTF-8, such as environment
// variables, are preserved.
func encode(r record) []byte {
	h := r.header()
	h.Version = recordVersion
	// The types of records contain nothing that cannot be encoded.
	value, _ := json.Marshal(r)
	if !bytes.Contains(value, notUnicode) {
		return value
	}
	h.Bytes = true
	value, _ = json.Marshal(mapTexts(reflect.ValueOf(r), charactersOf).Interface())
	return value
}

// decode reads a record.
func decode(value []byte, r record) error {
	if err := json.Unmarshal(value, r); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	h := r.header()
	switch {
	case h.Version > recordVersion:
		return fmt.Errorf("it is of version %d, and this program knows versions up to %d", h.Version, recordVersion)
	case h.Version <= 0:
		return fmt.Errorf("it has no version")
	case h.Bytes:
		h.Bytes = false
		reflect.ValueOf(r).Elem().Set(mapTexts(reflect.ValueOf(r), bytesOf).Elem())
	}
	return nil
}

// charactersOf returns a text with one character for each byte.
func charactersOf(text string) string {
	list := make([]rune, len(text))
	for i := range len(text) {
		list[i] = rune(text[i])
	}
	return string(list)
}

// bytesOf reverts charactersOf.
func bytesOf(text string) string {
	var b strings.Builder
	for _, c := range text {
		b.WriteByte(byte(c))
	}
	return b.String()
}

// mapTexts returns a copy of a value with its texts changed.
func mapTexts(v reflect.Value, change func(string) string) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	switch v.Kind() {
	case reflect.String:
		to.SetString(change(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			to.Set(reflect.New(v.Type().Elem()))
			to.Elem().Set(mapTexts(v.Elem(), change))
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				to.Index(i).Set(mapTexts(v.Index(i), change))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := to.Field(i); field.CanSet() { // the header contains no texts
				field.Set(mapTexts(v.Field(i), change))
			}
		}
	}
	return to
}
