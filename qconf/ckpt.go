package qconf

import (
	"fmt"
	"strings"
)

// Checkpoint is a checkpointing environment of checkpoint(5).
type Checkpoint struct {
	Text
	Name      string        // ckpt_name
	Interface CkptInterface // who makes the checkpoints
	// The commands are "path args", empty for none.
	Command, MigrationCommand, RestartCommand, CleanCommand string
	Dir                                                     string // ckpt_dir, absolute, empty for none
	Signal                                                  string // signal name or number, empty for none
	// When says when checkpoints are made: any of the letters s (shutdown of
	// the agent), m (min_cpu_interval), x (suspension), r (host unknown; the
	// job is rescheduled). Empty for never, which is written n or NONE.
	When string
}

// CkptInterface is interface of checkpoint(5).
type CkptInterface string

// The interfaces of checkpoint(5).
const (
	CkptUserDefined      CkptInterface = "userdefined"
	CkptTransparent      CkptInterface = "transparent"
	CkptApplicationLevel CkptInterface = "application-level"
	CkptHibernator       CkptInterface = "hibernator"
	CkptCPR              CkptInterface = "cpr"
)

// ckptLetters are the letters of when, in the order in which qconf prints them.
const ckptLetters = "xsmr"

var ckptTable = table[Checkpoint]{
	object: "checkpointing environment",
	manual: "checkpoint(5)",
	layout: layout{column: 19},
	rows: []attribute[Checkpoint]{
		{name: "ckpt_name", required: true, kind: name(func(c *Checkpoint) *string { return &c.Name })},
		row("interface", string(CkptUserDefined), keyword(func(c *Checkpoint) *CkptInterface { return &c.Interface },
			CkptUserDefined, CkptTransparent, CkptApplicationLevel, CkptHibernator, CkptCPR)),
		row("ckpt_command", none, command(ckptVariables, func(c *Checkpoint) *string { return &c.Command })),
		row("migr_command", none, command(ckptVariables, func(c *Checkpoint) *string { return &c.MigrationCommand })),
		row("restart_command", none, command(ckptVariables, func(c *Checkpoint) *string { return &c.RestartCommand })),
		row("clean_command", none, command(ckptVariables, func(c *Checkpoint) *string { return &c.CleanCommand })),
		row("ckpt_dir", "/tmp", optionalPath(func(c *Checkpoint) *string { return &c.Dir })),
		row("signal", none, signal(func(c *Checkpoint) *string { return &c.Signal })),
		row("when", "sx", kind[Checkpoint]{read: readWhen}),
	},
}

// ParseCheckpoint reads a checkpointing environment in the notation of
// checkpoint(5). file is only used in errors, which are all *Error, joined.
func ParseCheckpoint(file string, data []byte) (*Checkpoint, error) {
	return whole(newCheckpoint(ckptTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (c *Checkpoint) With(attribute, value string) (*Checkpoint, error) {
	return whole(newCheckpoint(ckptTable.with(c.Text, attribute, value)))
}

func newCheckpoint(text Text, c Checkpoint, err error) (*Checkpoint, error) {
	c.Text = text
	return &c, err
}

func readWhen(c *Checkpoint, s string) (string, error) {
	c.When = ""
	if s == "n" {
		return s, nil
	}
	if isWord(s, none) {
		return none, nil
	}
	if rest := strings.Trim(s, ckptLetters); rest != "" {
		return s, fmt.Errorf("%q contains %q, expected letters of s m x r, or NONE", s, rest[:1])
	}
	for _, l := range ckptLetters {
		if strings.ContainsRune(s, l) {
			c.When += string(l)
		}
	}
	return c.When, nil
}
