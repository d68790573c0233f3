package cell_test

import (
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
)

// The tests of package cell compare the texts that package command makes of events, because the
// original has no events, only texts.
var _ = cell.UseText(command.EventText)
