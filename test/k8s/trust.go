package k8s

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs what the parts of a cluster know each other by.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// trust makes all certificates, and the files with which each part reaches the API server.
func (p *plan) trust() error {
	for _, name := range []string{"log", "pids", "pki", "etcd"} {
		if err := os.MkdirAll(filepath.Join(p.Dir, name), 0o755); err != nil {
			return err
		}
	}
	a, err := newAuthority(filepath.Join(p.Dir, "pki"))
	if err != nil {
		return err
	}
	api := []net.IP{bridge, net.ParseIP(serviceAddress), net.IPv4(127, 0, 0, 1)}
	errs := []error{
		a.issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, api...),
		a.issue("kubelet-client", pkix.Name{CommonName: "apiserver-kubelet-client", Organization: []string{"system:masters"}}),
		a.serviceAccounts(),
	}
	users := map[string]pkix.Name{
		"admin":              {CommonName: "admin", Organization: []string{"system:masters"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
	}
	for n := 1; n <= p.Nodes; n++ {
		users[NodeName(n)] = pkix.Name{CommonName: "system:node:" + NodeName(n), Organization: []string{"system:nodes"}}
	}
	for name, user := range users {
		var addresses []net.IP
		for n := 1; n <= p.Nodes; n++ {
			if name == NodeName(n) {
				addresses = []net.IP{nodeAddress(n)}
			}
		}
		errs = append(errs, a.issue(name, user, addresses...), a.config(name))
	}
	return errors.Join(errs...)
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := a.sign(template, template, key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write("ca.crt", "CERTIFICATE", der)
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
}

// issue makes NAME.crt and NAME.key, for a user and for a server.
func (a *authority) issue(name string, subject pkix.Name, addresses ...net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	der, err := a.sign(&x509.Certificate{SerialNumber: serial, Subject: subject, IPAddresses: addresses, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}, a.cert, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(a.write(name+".crt", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private))
}

// serviceAccounts makes the key that tokens of service accounts are signed with.
func (a *authority) serviceAccounts() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	return errors.Join(a.write("sa.key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), a.write("sa.pub", "PUBLIC KEY", public))
}

// config makes NAME.kubeconfig.
func (a *authority) config(name string) error {
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
"contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
"clusters": [{"name": "test", "cluster": {"server": "https://%[3]s:%[4]d", "certificate-authority": "%[1]s/ca.crt"}}],
"users": [{"name": "user", "user": {"client-certificate": "%[1]s/%[2]s.crt", "client-key": "%[1]s/%[2]s.key"}}]}
`, a.dir, name, bridge, apiPort)
	return os.WriteFile(filepath.Join(a.dir, name+".kubeconfig"), []byte(text), 0o600)
}

func (a *authority) write(name, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
