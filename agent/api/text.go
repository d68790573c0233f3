package api

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// JSON is UTF-8, and Unix is not: what is none travels as base64, in a field of its
// own. Of a list all of it does, of a map only those values.

func packText(text string, encoded []byte) (string, []byte) {
	if utf8.ValidString(text) {
		return text, encoded
	}
	return "", []byte(text)
}

func packWords(words []string, encoded [][]byte) ([]string, [][]byte) {
	if !slices.ContainsFunc(words, func(w string) bool { return !utf8.ValidString(w) }) {
		return words, encoded
	}
	encoded = nil
	for _, w := range words {
		encoded = append(encoded, []byte(w))
	}
	return nil, encoded
}

func packMap(values map[string]string, encoded map[string][]byte) (map[string]string, map[string][]byte) {
	copied := false
	for name, v := range values {
		if utf8.ValidString(v) {
			continue
		}
		if !copied {
			values, encoded, copied = maps.Clone(values), maps.Clone(encoded), true
			if encoded == nil {
				encoded = map[string][]byte{}
			}
		}
		delete(values, name)
		encoded[name] = []byte(v)
	}
	return values, encoded
}

// packed returns the start as it can be written in JSON.
func (s Start) packed() Start {
	s.Command, s.CommandBase64 = packWords(s.Command, s.CommandBase64)
	s.Script, s.ScriptBase64 = packText(s.Script, s.ScriptBase64)
	s.Environment, s.EnvironmentBase64 = packMap(s.Environment, s.EnvironmentBase64)
	s.Directory, s.DirectoryBase64 = packText(s.Directory, s.DirectoryBase64)
	return s
}

func (s TaskStart) packed() TaskStart {
	s.Command, s.CommandBase64 = packWords(s.Command, s.CommandBase64)
	s.Environment, s.EnvironmentBase64 = packMap(s.Environment, s.EnvironmentBase64)
	s.Directory, s.DirectoryBase64 = packText(s.Directory, s.DirectoryBase64)
	return s
}
