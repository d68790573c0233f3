package standalone

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/execd-project/execd/cell/command"
)

// verify checks jobs with the site's verifier (sge_conf(5), jsv_url) in the background, or has the launcher check them, and then
// continues with the command. The jobs of one user are verified one at a time, so that slow checks
// do not block other users.
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
			if j.Verification == nil {
				v.Corrections, v.Err = m.verifier.Verify(ctx, conf.JSVURL, patience, j.Parameters, j.Environment)
			} else {
				v.Corrections, v.Digest, v.Err = m.host.Verify(ctx, uid, in.Confirmation.Key, j.Number, j.Verification)
			}
			if in.Verdicts = append(in.Verdicts, v); v.Err != nil {
				break
			}
		}
		_ = m.do(ctx, next) // the client gets the error that the daemon is stopping
	})
}

// verifierSays logs a message of the site's verifier.
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
