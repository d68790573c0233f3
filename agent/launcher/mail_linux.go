package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/host/mail"
	"github.com/execd-project/execd/internal/submission"
)

// Limits of mail. A front posts at most four mails at the same time (mail.Outbox).
const (
	mostMails      = 4
	mostRecipients = 256
	mostAddress    = 320 // bytes
	mostSubject    = 4 << 10
	mostMailText   = 128 << 10
	// mailBurst is how many mails the launcher sends at once, mailRate how many per second after that.
	mailBurst = 2000
	mailRate  = 20
)

// mailBody orders a mail. A long text is in a sealed file in memory, as of all orders.
type mailBody struct {
	Mailer  submission.Text   `json:"mailer"` // of the front's configuration
	To      []submission.Text `json:"to"`
	Subject submission.Text   `json:"subject"`
	Text    submission.Text   `json:"text"`
}

// checkMail refuses mail that a mailer could misunderstand. Package mail refuses addresses that could be options, files or
// commands.
func checkMail(b *mailBody) error {
	if len(b.To) == 0 || len(b.To) > mostRecipients {
		return fmt.Errorf("the mail has %d addresses, expected 1 to %d", len(b.To), mostRecipients)
	}
	for _, to := range b.To {
		if !mail.IsAddress(string(to)) || len(to) > mostAddress {
			return fmt.Errorf("invalid mail address %.200q: expected user or user@host", string(to))
		}
	}
	switch {
	case len(b.Subject) > mostSubject || strings.ContainsFunc(string(b.Subject), isControl):
		return fmt.Errorf("the subject %.100q has a control character, or more than %d bytes", string(b.Subject), mostSubject)
	case len(b.Text) > mostMailText:
		return fmt.Errorf("the text of the mail has %d bytes, at most %d are possible", len(b.Text), mostMailText)
	case strings.ContainsFunc(string(b.Text), func(r rune) bool { return isControl(r) && r != '\n' && r != '\t' }):
		return errors.New("the text of the mail has a control character")
	}
	return nil
}

// mail sends a mail with the mailer of root's configuration, as the user that it names, otherwise as mail.DefaultUser.
func (s *Server) mail(ctx context.Context, b *mailBody) error {
	if err := checkMail(b); err != nil {
		return &refusal{err}
	}
	s.configuring.RLock()
	command := s.Rules.Site.Mailer
	s.configuring.RUnlock()
	if command == "" || string(b.Mailer) != command {
		return ErrMailer // not a refusal: the configuration of a master may have another one
	}
	if !s.mails.take(time.Now()) {
		return &refusal{fmt.Errorf("more than %d mails at once, and more than %d per second after that", mailBurst, mailRate)}
	}
	front, err := s.Rules.Users.UserID(s.Rules.FrontUID)
	if err != nil {
		return err
	}
	m := mail.Mailer{Command: command, Users: s.Rules.Users.User, Shun: front.UID}
	letter := mail.Message{Subject: string(b.Subject), Text: string(b.Text)}
	for _, to := range b.To {
		letter.To = append(letter.To, string(to))
	}
	return m.Send(ctx, front, letter)
}

// mailBudget bounds the mails per time.
type mailBudget struct {
	mu   sync.Mutex
	left float64
	at   time.Time // zero before the first mail
}

// take reports whether another mail is possible.
func (b *mailBudget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.left = mailBurst
	} else {
		b.left = min(mailBurst, b.left+max(0, now.Sub(b.at).Seconds())*mailRate)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// Mail orders a mail. errors.Is(err, ErrMailer) if root's configuration has another mailer.
func (c *Client) Mail(mailer string, m mail.Message) error {
	b := &mailBody{Mailer: submission.Text(mailer), Subject: submission.Text(m.Subject), Text: submission.Text(m.Text)}
	for _, to := range m.To {
		b.To = append(b.To, submission.Text(to))
	}
	return c.ask(kindMail, b, nil)
}
