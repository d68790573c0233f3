package foreground

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/execd-project/execd/job"
)

// mail sends what -m asks for (sge_submit(1)) through the configured mailer,
// which is called as mailer -s SUBJECT ADDRESS... with the text on standard
// input. Mail that cannot be sent is said and does not fail the job.
func (s *session) mail(d *job.Description, occasion job.MailOptions, o *job.Outcome) {
	if o != nil && (o.Failed != job.FailedNone) && d.MailOptions&job.MailAtAbort != 0 {
		occasion = job.MailAtAbort
	}
	if d.MailOptions&occasion == 0 || d.MailList == "" || s.order.Config.Mailer == "" {
		return
	}
	state := map[job.MailOptions]string{job.MailAtBegin: "Started", job.MailAtEnd: "Complete", job.MailAtAbort: "Aborted"}[occasion]
	subject := fmt.Sprintf("Job %s (%s) %s", d.ID, d.Name, state)
	var body strings.Builder
	fmt.Fprintf(&body, "Job %s (%s) %s\n\n Owner = %s\n Queue = %s\n Host  = %s\n", d.ID, d.Name, state, d.Owner, d.Queue, d.Host)
	if o != nil {
		body.WriteString("\n " + summary(o, d.Name) + "\n")
	}
	args := append([]string{"-s", subject}, strings.Split(d.MailList, ",")...)
	cmd := exec.Command(s.order.Config.Mailer, args...)
	cmd.Stdin = strings.NewReader(body.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		s.say("cannot send mail: " + err.Error() + " " + strings.TrimSpace(string(out)))
	}
}
