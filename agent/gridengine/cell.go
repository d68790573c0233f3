package gridengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/gridengine/pinned"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// Cell is a cell of Grid Engine as its files describe it (sge_cell, bootstrap(5),
// host_aliases(5)).
type Cell struct {
	Root, Name string // SGE_ROOT, SGE_CELL

	AdminUser string // admin_user; "root" for none
	Security  Security
	Names     *Names

	QmasterPort, ExecdPort int
}

// Security has the methods of security_mode (bootstrap(5)) of a cell, all of Open Cluster Scheduler 9.1.
type Security struct {
	Munge bool // each message has a credential of munged(8), see package munge
	TLS   bool // connections are encrypted, see package pinned
	// Lifetime is that of the certificates that daemons make: certificate_lifetime of security_params.
	Lifetime time.Duration
}

// securityOf reads security_mode and security_params.
func securityOf(mode, params string) (Security, error) {
	s := Security{Lifetime: pinned.DefaultLifetime}
	for word := range strings.SplitSeq(strings.ToLower(mode), ",") {
		switch word {
		case "munge":
			s.Munge = true
		case "tls":
			s.TLS = true
		case "none", "":
		default:
			return s, fmt.Errorf("security_mode is %q, expected none, munge, tls, or munge,tls: no other is supported", mode)
		}
	}
	for word := range strings.SplitSeq(params, ",") {
		name, value, _ := strings.Cut(word, "=")
		if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "certificate_lifetime") {
			s.Lifetime = min(max(time.Duration(seconds)*time.Second, pinned.LeastLifetime), pinned.DefaultLifetime)
		}
	}
	return s, nil
}

// DefaultCell is the default name of a cell.
const DefaultCell = "default"

// The ports that IANA has for the two services.
const (
	defaultQmasterPort = 6444
	defaultExecdPort   = 6445
)

// OpenCell reads the files of a cell. env looks up an environment variable: SGE_ROOT,
// SGE_CELL, SGE_QMASTER_PORT, SGE_EXECD_PORT.
func OpenCell(env func(string) string) (*Cell, error) {
	c := &Cell{Root: env("SGE_ROOT"), Name: env("SGE_CELL")}
	if c.Name == "" {
		c.Name = DefaultCell
	}
	if !filepath.IsAbs(c.Root) {
		return nil, fmt.Errorf("SGE_ROOT is %q: set it to the directory of the Grid Engine installation; settings.sh in its SGE_CELL/common does", c.Root)
	}
	values, err := readBootstrap(c.path("bootstrap"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the bootstrap file of the cell %q: %w; check that SGE_ROOT is mounted and SGE_CELL is correct", c.Name, err)
	}
	if c.AdminUser = values["admin_user"]; c.AdminUser == "" || strings.EqualFold(c.AdminUser, "none") {
		c.AdminUser = "root"
	}
	if c.Security, err = securityOf(values["security_mode"], values["security_params"]); err != nil {
		return nil, fmt.Errorf("%s: %w", c.path("bootstrap"), err)
	}
	aliases, err := userfile.Read(c.path("host_aliases"), textfile.MaxConfig)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	c.Names = NewNames(string(aliases), values["default_domain"], strings.EqualFold(values["ignore_fqdn"], "true"))
	services, _ := os.ReadFile("/etc/services")
	if c.QmasterPort, err = port(env, "SGE_QMASTER_PORT", "sge_qmaster", string(services), defaultQmasterPort); err != nil {
		return nil, err
	}
	c.ExecdPort, err = port(env, "SGE_EXECD_PORT", "sge_execd", string(services), defaultExecdPort)
	return c, err
}

// Protocol returns the protocol of the release that the cell was installed with; nil if that is
// unknown. It is a hint only, because a cell may come from an older release.
func (c *Cell) Protocol() *message.Protocol {
	text, err := userfile.Read(c.path("bootstrap"), textfile.MaxConfig)
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	version, ok := strings.CutPrefix(strings.TrimSpace(first), "# Version: ")
	if !ok {
		return nil
	}
	return message.ProtocolNamed(version)
}

func (c *Cell) path(name string) string { return filepath.Join(c.Root, c.Name, "common", name) }

// Master reads the host of qmaster from act_qmaster.
func (c *Cell) Master() (string, error) {
	text, err := userfile.Read(c.path("act_qmaster"), textfile.MaxConfig)
	if err != nil {
		return "", fmt.Errorf("cannot determine where sge_qmaster is: %w", err)
	}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return "", fmt.Errorf("cannot determine where sge_qmaster is: %s is empty", c.path("act_qmaster"))
	}
	return c.Names.Canonical(words[0]), nil
}

// readBootstrap reads lines of a name and a value.
func readBootstrap(path string) (map[string]string, error) {
	text, err := userfile.Read(path, textfile.MaxConfig)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= 2 && !strings.HasPrefix(words[0], "#") {
			values[words[0]] = words[1]
		}
	}
	return values, nil
}

// port returns the port of the environment variable, otherwise of the services file, otherwise the
// one assigned by IANA.
func port(env func(string) string, variable, service, services string, other int) (int, error) {
	if text := env(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 65535 {
			return 0, fmt.Errorf("%s is %q, expected a number from 1 to 65535", variable, text)
		}
		return n, nil
	}
	for line := range strings.Lines(services) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		number, isTCP := strings.CutSuffix(words[1], "/tcp")
		for i, name := range words {
			if n, err := strconv.Atoi(number); i != 1 && name == service && isTCP && err == nil {
				return n, nil
			}
		}
	}
	return other, nil
}

// Names compares names of hosts as the cell does, and returns the main name of each host.
type Names struct {
	aliases       map[string]string // in small letters: main name
	defaultDomain string
	ignoreFQDN    bool
}

// NewNames reads the content of host_aliases(5).
func NewNames(aliases, defaultDomain string, ignoreFQDN bool) *Names {
	n := &Names{aliases: map[string]string{}, ignoreFQDN: ignoreFQDN}
	if !strings.EqualFold(defaultDomain, "none") {
		n.defaultDomain = defaultDomain
	}
	for line := range strings.Lines(aliases) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		for _, w := range words {
			n.aliases[strings.ToLower(w)] = words[0]
		}
	}
	return n
}

// Canonical returns the main name of a host according to host_aliases(5), or its name.
func (n *Names) Canonical(host string) string {
	host = strings.TrimSuffix(host, ".")
	if main, ok := n.aliases[strings.ToLower(host)]; ok {
		return main
	}
	return host
}

// Same reports whether two names are of the same host (bootstrap(5), ignore_fqdn and
// default_domain).
func (n *Names) Same(a, b string) bool { return strings.EqualFold(n.compared(a), n.compared(b)) }

func (n *Names) compared(host string) string {
	host = n.Canonical(host)
	short, _, qualified := strings.Cut(host, ".")
	switch {
	case n.ignoreFQDN:
		return short
	case !qualified && n.defaultDomain != "":
		return host + "." + n.defaultDomain
	default:
		return host
	}
}

// endpoint is qmaster on a host.
func qmasterOn(host string) commlib.Endpoint {
	return commlib.Endpoint{Host: host, Component: commlib.Qmaster, ID: 1}
}
