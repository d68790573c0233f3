package launcher

import (
	"errors"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/submission"
)

// Configure orders a change of root's configuration, or refuses it. key is that of the statement of root; it is empty
// for changes that root has not confirmed. starts says that the change takes effect with the next launcher: this process must
// not use it, and is replaced.
func (c *Client) Configure(key string, list []configdir.Change) (starts bool, err error) {
	b := &configureBody{Step: stepChange, Key: key}
	for _, x := range list {
		b.Changes = append(b.Changes, fileChange{submission.Text(x.Path), x.Text, x.Remove})
	}
	a := &configureAnswer{}
	err = c.configure(b, a)
	return a.Starts, err
}

// configure sends an order about the configuration.
func (c *Client) configure(b *configureBody, a *configureAnswer) error {
	err := c.askNow(kindConfigure, b, a)
	if errors.Is(err, errAway) {
		return errors.New("the launcher, which changes the configuration, is not running: repeat the command later")
	}
	return err
}

// UndoConfiguration undoes the last change, and KeepConfiguration tells the launcher that the front uses it.
func (c *Client) UndoConfiguration() error {
	return c.configure(&configureBody{Step: stepUndo}, &configureAnswer{})
}

// KeepConfiguration tells the launcher that the last change is not going to be undone.
func (c *Client) KeepConfiguration() error {
	return c.configure(&configureBody{Step: stepKeep}, &configureAnswer{})
}
