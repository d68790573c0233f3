package printer

import (
	"encoding/json"

	"github.com/execd-project/execd/internal/printable"
)

// JSON returns a value as JSON for people, too: indented, with a line break at the end.
func JSON(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(printable.AppendJSON(nil, text), '\n'), err
}
