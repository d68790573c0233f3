package command

import (
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qconf"
)

// mistakes are the words before the name of something that there is none of, and the names
// that there are.
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

// longestMistake bounds the names for which near ones are looked for.
const longestMistake = 64

// suggest names in the hint what was probably meant by a name that a text says there is none
// of.
func (x *call) suggest(text string) {
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
