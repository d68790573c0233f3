package submit

import (
	"strings"
)

// helpColumn is the column of the explanations.
const helpColumn = 34

// Usage returns the list of options as a help text, one line each, grouped by treatment.
func Usage() string {
	var b strings.Builder
	seen := map[string]bool{} // the first row of a name is the row for qsub
	for _, t := range []Treatment{Executed, Noted, Refused, ForCaller} {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(t.String() + ":\n")
		for _, o := range table {
			if o.Treatment != t || o.Commands&everywhere == 0 || seen[o.Name] {
				continue
			}
			seen[o.Name] = true
			text := "  " + strings.TrimSpace(o.Name+" "+o.Args)
			if len(text)+2 > helpColumn {
				b.WriteString(text + "\n")
				text = ""
			}
			b.WriteString(text + strings.Repeat(" ", helpColumn-len(text)) + o.Help + "\n")
		}
	}
	return b.String()
}
