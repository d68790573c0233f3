package standalone

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/execd-project/execd/cell/command"
)

// verify has the verifier of the site look at jobs (sge_conf(5), jsv_url), beside what else
// happens, and then goes on with the command. Jobs of one user are verified one at a time, so
// that those of others have their turn where it takes long.
func (m *Master) verify(jobs []command.Judge, in *command.Input, next func()) {
	ctx, conf := m.context, m.cell.Cluster().Global()
	patience := time.Duration(conf.QmasterParams.JSVTimeout) * time.Second
	m.orders.workers.Go(func() {
		uid := uint32(in.By.Origin.UID)
		if m.verifying.take(ctx, uid) != nil {
			return
		}
		defer m.verifying.give(uid)
		for _, j := range jobs {
			v := command.Verdict{Number: j.Number, Copied: j.Copied}
			v.Corrections, v.Err = m.verifier.Verify(ctx, conf.JSVURL, patience, j.Parameters, j.Environment)
			if in.Verdicts = append(in.Verdicts, v); v.Err != nil {
				break
			}
		}
		_ = m.do(ctx, next) // who asks is told that the daemon ends
	})
}

// verifierSays logs what the verifier of the site logs.
func (m *Master) verifierSays(level, text string) {
	const most = 1000
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), most)])
	log := m.log.Info
	if i := slices.Index([]string{"WARNING", "ERROR"}, level); i >= 0 {
		log = []func(string, ...any){m.log.Warn, m.log.Error}[i]
	}
	log("the verifier of jobs says", "text", text)
}
