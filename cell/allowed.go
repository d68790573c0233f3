package cell

import (
	"slices"

	"github.com/execd-project/execd/submit"
)

// modifications maps options of qalter to the parameters of a verifier that they change, in the
// order in which the original names them (tested).
var modifications = []struct{ option, parameter string }{
	{"-N", "N"},
	{"-a", "a"},
	{"-A", "A"},
	{"-ar", "ar"},
	{"-binding", "binding"},
	{"-c", "c_interval"},
	{"-c", "c_occasion"},
	{"-ckpt", "ckpt"},
	{"-dl", "dl"},
	{"-e", "e"},
	{"-i", "i"},
	{"-h", "h"},
	{"-h", "t"},
	{"-hold_jid", "hold_jid"},
	{"-hold_jid_ad", "hold_jid_ad"},
	{"-R", "R"},
	{"-j", "j"},
	{"-l", "l_hard"},
	{"-l", "l_soft"},
	{"-m", "m"},
	{"-M", "M"},
	{"-notify", "notify"},
	{"-o", "o"},
	{"-p", "p"},
	{"-js", "js"},
	{"-P", "P"},
	{"-cwd", "cwd"},
	{"-wd", "cwd"},
	{"-pe", "pe_name"},
	{"-pe", "pe_min"},
	{"-q", "q_hard"},
	{"-q", "q_soft"},
	{"-masterq", "masterq"},
	{"-r", "r"},
	{"-S", "S"},
	{"-tc", "tc"},
	{"-v", "v"},
	{"-ac", "ac"},
	{"-dc", "ac"},
	{"-sc", "ac"},
}

// mayAlter adds the reason if a verifier must see all jobs, so that jobs must not be altered. It
// does so once for each named job, whether it exists or not (sge_conf(5), jsv_allowed_mod). -w, -t
// and -ot are always allowed, unless no option is.
func (c *Cell) mayAlter(r *submit.Alteration, a *Answer) bool {
	conf := c.cluster.Global()
	if conf.JSVURL == "" {
		return true
	}
	var parameters []string // none if nothing may be altered
	if len(conf.JSVAllowedMod) > 0 {
		if parameters = unallowed(r, conf.JSVAllowedMod); len(parameters) == 0 {
			return true
		}
	}
	n := len(r.Jobs)
	if len(r.Users) > 0 {
		n = 1
	}
	for range n {
		a.deny(Event{Kind: AlterationDisallowed, Names: parameters})
	}
	return false
}

// unallowed returns the parameters that an alteration changes without permission.
func unallowed(r *submit.Alteration, allowed []string) (list []string) {
	for _, m := range modifications {
		changed := r.Has(m.option)
		switch m.parameter {
		case "c_interval":
			changed = changed && r.Request.CheckpointInterval > 0
		case "c_occasion":
			changed = changed && r.Request.CheckpointWhen != ""
		case "l_hard", "l_soft":
			soft := m.parameter == "l_soft"
			changed = changed && slices.ContainsFunc(r.Request.Resources, func(x submit.ResourceRequest) bool { return x.Soft == soft })
		case "q_hard", "q_soft":
			soft := m.parameter == "q_soft"
			changed = changed && slices.ContainsFunc(r.Request.Queues, func(x submit.QueueRequest) bool { return x.Soft == soft })
		case "t": // holds apply to tasks
			changed = changed && !slices.Contains(allowed, "h")
		}
		if changed && !slices.Contains(allowed, m.parameter) && !slices.Contains(list, m.parameter) {
			list = append(list, m.parameter)
		}
	}
	return list
}
