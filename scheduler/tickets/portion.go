package tickets

// Portion is a node of a share tree with tasks below it, and its entitlement: parts of the whole
// tree, from 0 to 1 (share_tree(5); sched_conf(5), compensation_factor).
type Portion struct {
	Shares float64
	Usage  float64 // decayed and weighted, of all that is below it

	Long  float64 // in the long run: by the shares alone
	Short float64 // current entitlement, which depends on past usage

	among float64 // Short, as a part of all siblings
	right float64 // among is in proportion to it
}

// Whole is the entitlement of the root of a tree.
var Whole = Portion{Long: 1, Short: 1, among: 1}

// least is the usage that a node counts with when it has the whole tree.
const least = 1.0

// Divide divides the entitlement of a node among its children with tasks, in proportion to the
// square of their shares divided by their usage: a child that has used twice its part gets half of
// it. Children get at most the compensation factor times their part; factor 0 means no maximum.
func Divide(parent Portion, children []Portion, factor float64) {
	all := 0.0
	for i := range children {
		all += children[i].Shares
	}
	for i := range children {
		p := &children[i]
		if p.Long = parent.Long * part(p.Shares, all); p.Long > 0 {
			p.right = p.Shares * p.Shares / p.counted()
		}
	}
	settle(parent, children)
	if factor == 0 {
		return
	}
	compensated := false
	for i := range children {
		if p := &children[i]; p.Short > factor*p.Long {
			p.right = p.Shares * p.Shares / (p.counted() * (p.Short / (factor * p.Long)))
			compensated = true
		}
	}
	// Once only: the result may be above the factor still.
	if compensated {
		settle(parent, children)
	}
}

// counted returns the usage that a node counts with.
func (p *Portion) counted() float64 { return max(p.Usage, least*p.Long) }

// settle gives children their parts by their rights.
func settle(parent Portion, children []Portion) {
	sum := 0.0
	for i := range children {
		sum += children[i].right
	}
	for i := range children {
		p := &children[i]
		p.among = part(p.right, sum)
		p.Short = parent.Short * p.among
	}
}
