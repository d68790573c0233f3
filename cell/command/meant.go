package command

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qconf"
)

// mistakes holds the texts that precede unknown names in error messages, each with the function that
// returns the known names.
var mistakes = []struct {
	words string
	names func(*qconf.Cluster) []string
}{
	{"unknown resource ", resourceNames},
	{"unknown queue ", (*qconf.Cluster).QueueNames},
	{"parallel environment ", (*qconf.Cluster).PENames},
	{"the requested project ", (*qconf.Cluster).ProjectNames},
	{"checkpointing environment ", (*qconf.Cluster).CheckpointNames},
}

func resourceNames(c *qconf.Cluster) (names []string) {
	for _, x := range c.Complexes().All() {
		names = append(names, x.Name)
	}
	return names
}

// longestMistake is the maximum length of an unknown name for which suggest looks for similar names.
const longestMistake = 64

// valueForms describe the form of the values of each type (complex(5), "type").
var valueForms = map[string]string{
	"integer": "an integer is a whole number, such as 4",
	"double":  "a double is a number, such as 0.5",
	"time":    "a time is hours:minutes:seconds, such as 1:00:00 for one hour, or a number of seconds",
	"memory":  "a memory value is a number with a unit, such as 4G or 500M, or a number of bytes",
	"boolean": "a boolean is TRUE or FALSE",
}

// suggest sets the hint for an error text: a known name that is similar to an unknown one, and on
// a terminal the form of a value that cannot be read.
func (x *call) suggest(text string) {
	if _, rest, ok := strings.Cut(text, `" is not a `); ok && x.in.Terminal && strings.Contains(text, `attribute "`) {
		kind, _, _ := strings.Cut(rest, " value")
		if form, ok := valueForms[kind]; ok {
			x.result.Hint = form + "\n"
		}
		return
	}
	for _, m := range mistakes {
		_, rest, ok := strings.Cut(text, m.words+`"`)
		if !ok {
			continue
		}
		quoted, err := strconv.QuotedPrefix(`"` + rest)
		if err != nil {
			return
		}
		name, err := strconv.Unquote(quoted)
		if err != nil || len(name) > longestMistake {
			return
		}
		name, host, _ := strings.Cut(name, "@") // of a queue instance
		if near, ok := nearest.Word(name, m.names(x.cluster())); ok && near != name {
			if host != "" {
				near += "@" + host
			}
			x.result.Hint = printer.Sprintf("did you mean %s?\n", near)
		}
		return
	}
}
