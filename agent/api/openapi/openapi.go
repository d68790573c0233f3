// Package openapi makes an OpenAPI 3.1 document from Go types: from those that the server of agent/api
// reads and writes, so that the document cannot differ from them. It is pure.
//
// Other projects should not import this package: it may change at any time.
package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Operation is a call with POST.
type Operation struct {
	Path, Summary string
	// In and Out are values of the types of the message and of the answer.
	In, Out any
	// Lines says that the answer is a stream of lines, each of which is an Out.
	Lines bool
	// Connection says that the connection is used for something else after the call: status 101.
	Connection bool
}

// Document is the whole document.
type Document struct {
	Title, Version, Description string
	Operations                  []Operation
	Error                       any // a value of the type of all errors
}

type object = map[string]any

// JSON returns the document.
func (d *Document) JSON() ([]byte, error) {
	s := schemas{object{}}
	paths := object{}
	failure, err := s.schemaOf(reflect.TypeOf(d.Error))
	if err != nil {
		return nil, err
	}
	for i := range d.Operations {
		o := &d.Operations[i]
		in, err := s.schemaOf(reflect.TypeOf(o.In))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
		out, err := s.schemaOf(reflect.TypeOf(o.Out))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
		kind := "application/json"
		if o.Lines {
			kind = "application/x-ndjson"
		}
		good := object{"200": object{"description": "The answer.", "content": object{kind: object{"schema": out}}}}
		if o.Connection {
			good = object{"101": object{"description": "The connection carries something else from here on."}}
		}
		good["default"] = object{"description": "An error.", "content": object{"application/json": object{"schema": failure}}}
		paths[o.Path] = object{"post": object{
			"operationId": strings.NewReplacer("/", "_", ".", "_").Replace(strings.Trim(o.Path, "/")), "summary": o.Summary,
			"requestBody": object{"required": true, "content": object{"application/json": object{"schema": in}}}, "responses": good,
		}}
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0", "info": object{"title": d.Title, "version": d.Version, "description": d.Description},
		"paths": paths, "components": object{"schemas": s.named},
	}, "", "  ")
}

// schemas are the schemas of named types.
type schemas struct{ named object }

// Described is a type with a form of its own in JSON.
type Described interface {
	// JSONSchema returns its schema.
	JSONSchema() map[string]any
}

var (
	described = reflect.TypeFor[Described]()
	marshaler = reflect.TypeFor[json.Marshaler]()
)

// schemaOf returns the schema of a type; that of a struct is a reference to a named one.
func (s schemas) schemaOf(t reflect.Type) (object, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}, nil
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}, nil
	case t.Implements(described):
		return reflect.Zero(t).Interface().(Described).JSONSchema(), nil
	case t.Kind() == reflect.Pointer:
		return s.schemaOf(t.Elem())
	case t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler):
		return nil, fmt.Errorf("%s has a form of its own and no JSONSchema", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}, nil
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}, nil
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}, nil
		}
		items, err := s.schemaOf(t.Elem())
		return object{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := s.schemaOf(t.Elem())
		return object{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return s.ofStruct(t)
	}
	return nil, fmt.Errorf("%s has no form in JSON", t)
}

// ofStruct adds the schema of a struct to the named ones, and returns a reference.
func (s schemas) ofStruct(t reflect.Type) (object, error) {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if other, ok := s.named[t.Name()]; ok {
		if from := other.(object)["x-go-type"]; from != t.String() {
			return nil, fmt.Errorf("%s and %s have the same name", from, t)
		}
		return ref, nil
	}
	schema := object{"type": "object", "x-go-type": t.String()}
	s.named[t.Name()] = schema
	properties := object{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, rest, _ := strings.Cut(tag, ",")
		if !f.IsExported() || tag == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("%s.%s has no name in JSON", t, f.Name)
		}
		p, err := s.schemaOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		switch kind := f.Type.Kind(); {
		case strings.Contains(rest, "omitempty") || strings.Contains(rest, "omitzero"):
		case kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Slice: // null if there is nothing
			p = object{"anyOf": []any{p, object{"type": "null"}}}
			fallthrough
		default:
			required = append(required, name)
		}
		properties[name] = p
	}
	schema["properties"] = properties
	if len(required) > 0 {
		schema["required"] = required
	}
	return ref, nil
}
