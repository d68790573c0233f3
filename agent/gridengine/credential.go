package gridengine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/gridengine/munge"
)

// mungePatience is the time limit for munged(8). It is on this host, and answers within milliseconds.
const mungePatience = 2 * time.Second

// checkSecurity checks whether the options fit security_mode of the cell. With munge or tls it chooses the
// only protocol that has them.
func (o *Options) checkSecurity() error {
	mode := "munge"
	switch {
	case o.Cell.Security.Munge:
	case o.Cell.Security.TLS:
		mode = "tls"
	default:
		return nil
	}
	if o.Protocol == nil {
		i := slices.IndexFunc(message.Protocols, (*message.Protocol).NamesSender)
		o.Protocol = message.Protocols[i]
	}
	if !o.Protocol.NamesSender() {
		return fmt.Errorf("%s: security_mode is %s, which Grid Engine %s does not have", o.Cell.path("bootstrap"), mode, o.Protocol.Name)
	}
	return nil
}

// sign returns a message with a credential of munged instead of the sender's name, if the cell has
// security_mode munge. sge_qmaster accepts each credential only once: sign a message again before
// sending it again.
func (s *session) sign(codec *message.Codec, payload []byte) ([]byte, error) {
	if !s.options.Cell.Security.Munge {
		return payload, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, mungePatience)
	defer cancel()
	credential, err := s.munged().Encode(ctx, codec.SenderText())
	if err != nil {
		return nil, err
	}
	return codec.WithCredential(payload, credential), nil
}

func (s *session) munged() *munge.Client { return &munge.Client{Socket: s.options.MungeSocket} }

// sender verifies the credential of a message, and returns the name of the user who sent it.
func (s *session) sender(payload []byte) (string, error) {
	credential, err := message.Credential(payload)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(s.ctx, mungePatience)
	defer cancel()
	c, err := s.munged().Decode(ctx, credential)
	if err != nil {
		return "", err
	}
	uid, err := message.SenderUID(c.Text)
	if err != nil {
		return "", err
	}
	if uid != c.UID {
		return "", fmt.Errorf("its sender claims user ID %d, but its credential has %d", uid, c.UID)
	}
	name := s.options.UserOf(uid)
	if name == "" {
		return "", fmt.Errorf("its sender has user ID %d, which no user of this host has", uid)
	}
	return name, nil
}

// checkMaster checks that a message on the connection of sge_qmaster comes from root, the cell's admin
// user, or the user of this daemon, if the cell has security_mode munge.
func (s *session) checkMaster(payload []byte) error {
	if !s.options.Cell.Security.Munge {
		return nil
	}
	name, err := s.sender(payload)
	if err != nil {
		return err
	}
	if allowed := []string{"root", s.options.Cell.AdminUser, s.options.Identity.User}; !slices.Contains(allowed, name) {
		return fmt.Errorf("its sender is %s, expected one of %q", name, allowed)
	}
	return nil
}

// checkOwner checks that the owner of a task sent the request for it, if the cell has security_mode
// munge.
func (s *session) checkOwner(payload []byte, owner string) error {
	if !s.options.Cell.Security.Munge {
		return nil
	}
	name, err := s.sender(payload)
	if err != nil {
		return err
	}
	if name != owner {
		return fmt.Errorf("a task of %s was requested by %s", owner, name)
	}
	return nil
}
