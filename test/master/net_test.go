package master

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
)

// network holds a network namespace for a master and one for each host, with a virtual cable from
// each to that of the master. The namespaces exist as long as the processes that hold them.
type network struct {
	testing.TB
	master int
	hosts  map[string]int // process IDs of their holders
}

func newNetwork(t testing.TB, hosts []string) *network {
	t.Helper()
	n := &network{TB: t, master: holder(t), hosts: map[string]int{}}
	for i, host := range hosts {
		pid := holder(t)
		n.hosts[host] = pid
		subnet := "10.77." + strconv.Itoa(i) + "."
		n.run(n.master, "ip", "link", "add", "to-"+host, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid))
		n.run(n.master, "ip", "address", "add", subnet+"1/30", "dev", "to-"+host)
		n.run(n.master, "ip", "link", "set", "to-"+host, "up")
		n.run(pid, "ip", "address", "add", n.address(i)+"/30", "dev", "eth0")
		n.run(pid, "ip", "link", "set", "eth0", "up")
	}
	return n
}

// address returns the address of a host.
func (n *network) address(i int) string { return "10.77." + strconv.Itoa(i) + ".2" }

// holder starts a process in its own network namespace.
func holder(t testing.TB) int {
	t.Helper()
	cmd := exec.Command("sleep", "infinity") //nolint:noctx // it ends with the test
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// command returns a command that runs in a namespace.
func (n *network) command(pid int, words ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/proc/" + strconv.Itoa(pid) + "/ns/net"}, words...)...) //nolint:noctx // the test ends it
}

func (n *network) run(pid int, words ...string) {
	n.Helper()
	if out, err := n.command(pid, words...).CombinedOutput(); err != nil {
		n.Fatalf("%q: %v\n%s", words, err, out)
	}
}

// authority signs certificates.
type authority struct {
	testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{TB: t, dir: dir, key: newKey(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.issue("ca", a.cert, a.key)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// files returns a certificate for the name of a master or of an agent.
func (a *authority) files(name string, usage x509.ExtKeyUsage) api.TLS {
	a.Helper()
	a.issue(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, newKey(a.TB))
	return api.TLS{CA: filepath.Join(a.dir, "ca.pem"), Certificate: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+"-key.pem")}
}

func (a *authority) issue(name string, template *x509.Certificate, key *ecdsa.PrivateKey) {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	write(a.TB, filepath.Join(a.dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(a.TB, filepath.Join(a.dir, name+"-key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}
