// Package openapitest compares messages and answers with an OpenAPI document, for tests. It knows the
// keywords that package openapi uses.
//
// Other projects should not import this package: it may change at any time.
package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document is a document that was read.
type Document struct {
	paths      map[string]map[string]operation
	components struct{ Schemas map[string]any }
}

type operation struct {
	RequestBody body            `json:"requestBody"`
	Responses   map[string]body `json:"responses"`
}

type body struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

// Read reads a document of version 3.1.0.
func Read(text []byte) (*Document, error) {
	var x struct {
		OpenAPI    string                           `json:"openapi"`
		Paths      map[string]map[string]operation  `json:"paths"`
		Components struct{ Schemas map[string]any } `json:"components"`
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, err
	}
	if x.OpenAPI != "3.1.0" {
		return nil, fmt.Errorf("openapi: %q, expected 3.1.0", x.OpenAPI)
	}
	return &Document{x.Paths, x.Components}, nil
}

// Paths returns the paths of the document, sorted.
func (d *Document) Paths() []string { return slices.Sorted(maps.Keys(d.paths)) }

// Message returns the differences between a message and the document.
func (d *Document) Message(path string, text []byte) []string {
	return d.compare(path, d.paths[path]["post"].RequestBody, text)
}

// Answer returns the differences between an answer, or an error, and the document.
func (d *Document) Answer(path string, good bool, text []byte) []string {
	status := "default"
	if good {
		status = "200"
	}
	return d.compare(path, d.paths[path]["post"].Responses[status], text)
}

func (d *Document) compare(path string, b body, text []byte) []string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return []string{fmt.Sprintf("%s: %q: %v", path, text, err)}
	}
	for _, c := range b.Content {
		return d.check(path, c.Schema, value)
	}
	return []string{path + " is not in the document"}
}

// check returns the differences between a value and a schema. A schema of an object permits no other
// properties: the server must not send what the document does not have.
func (d *Document) check(at string, schema map[string]any, value any) (wrong []string) {
	if ref, ok := schema["$ref"].(string); ok {
		return d.check(at, d.components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any), value)
	}
	if list, ok := schema["anyOf"].([]any); ok {
		for _, s := range list {
			more := d.check(at, s.(map[string]any), value)
			if len(more) == 0 {
				return nil
			}
			wrong = append(wrong, more...)
		}
		return wrong
	}
	kind, ok := schema["type"].(string)
	if !ok {
		return nil // anything
	}
	got := map[bool]string{true: "null"}[value == nil]
	switch v := value.(type) {
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case float64:
		if got = "number"; kind == "integer" && v == float64(int64(v)) {
			got = "integer"
		}
	case []any:
		got = "array"
		for i, x := range v {
			if items, ok := schema["items"].(map[string]any); ok {
				wrong = append(wrong, d.check(fmt.Sprintf("%s[%d]", at, i), items, x)...)
			}
		}
	case map[string]any:
		got = "object"
		properties, _ := schema["properties"].(map[string]any)
		for name, x := range v {
			s, ok := properties[name].(map[string]any)
			if !ok {
				s, ok = schema["additionalProperties"].(map[string]any)
			}
			if !ok {
				wrong = append(wrong, at+"."+name+" is not in the document")
				continue
			}
			wrong = append(wrong, d.check(at+"."+name, s, x)...)
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong = append(wrong, at+"."+name.(string)+" is missing")
			}
		}
	}
	if got != kind {
		wrong = append(wrong, fmt.Sprintf("%s is %s, expected %s", at, got, kind))
	}
	return wrong
}
