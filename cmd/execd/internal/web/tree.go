package web

import (
	"strings"
	"unicode/utf8"

	"github.com/execd-project/execd/qstat"
)

// picture shows the share tree: each node is a box below that of its parent, and the width of the box is the share
// of the node. The widths are those of the SVG in the template.
type picture struct {
	Name   string
	Height int
	Boxes  []box
}

// box is a node in a picture.
type box struct {
	X, Y, Width int
	Title       string // the name of the node and its share
	Label       string // what has room in the box
}

const (
	treeWidth   = 530
	treeRow     = 32
	letterWidth = 9 // of a wide letter
	labelMargin = 12
	// textX and textY are the place of a label in its box.
	textX = 6
	textY = 20
)

// TextX returns the left end of the label.
func (b box) TextX() int { return b.X + textX }

// TextY returns the base line of the label.
func (b box) TextY() int { return b.Y + textY }

// pictures returns the pictures of the targets and of the actual shares.
func pictures(nodes []node) []picture {
	return []picture{
		newPicture("Long term targets", nodes, func(r *qstat.ShareRow) float64 { return r.LongTarget }),
		newPicture("Actual shares", nodes, func(r *qstat.ShareRow) float64 { return r.Actual }),
	}
}

// newPicture returns the picture of a share of the whole tree. A parent comes before its children.
func newPicture(name string, nodes []node, share func(*qstat.ShareRow) float64) picture {
	p := picture{Name: name}
	next := map[string]float64{} // by the path of a parent: where its next child begins
	for i := range nodes {
		n := &nodes[i]
		path := strings.Trim(n.Node, "/")
		parent := ""
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			parent = path[:i]
		}
		begin := next[parent]
		if path == "" {
			begin = 0
		}
		part := min(max(share(&n.ShareRow), 0), 1-begin)
		next[path] = begin
		if path != "" {
			next[parent] = begin + part
		}
		x, end := int(begin*treeWidth), int((begin+part)*treeWidth)
		if end <= x {
			continue
		}
		b := box{X: x, Y: n.Depth * treeRow, Width: end - x, Title: n.Name + ": " + percent(part)}
		for _, label := range []string{b.Title, n.Name} {
			if utf8.RuneCountInString(label)*letterWidth+labelMargin <= b.Width {
				b.Label = label
				break
			}
		}
		p.Boxes = append(p.Boxes, b)
		p.Height = max(p.Height, b.Y+treeRow)
	}
	return p
}
