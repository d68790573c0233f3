package api

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// JSON is UTF-8, while Unix texts are arbitrary bytes. Texts that are not UTF-8 travel as base64 in
// a field of their own: of a list the whole list, of a map only the values concerned.

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

// packed returns the start in the form for JSON.
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
