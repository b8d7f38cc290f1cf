package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestAuthorityIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "authority")
	a := must.Get(OpenAuthority(dir))(t)
	again := must.Get(OpenAuthority(dir))(t)
	if !a.Created() || again.Created() || a.Pin() != again.Pin() {
		t.Errorf("created %v and %v, pins equal: %v", a.Created(), again.Created(), a.Pin() == again.Pin())
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, filepath.Join(dir, authorityFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v is left in the directory (%v)", names, err)
	}
}

// Many processes that start at once have one authority.
func TestAuthorityIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	pins, created := map[Pin]bool{}, 0
	for range 16 {
		wg.Go(func() {
			a, err := OpenAuthority(dir)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pins[a.Pin()] = true
			if a.Created() {
				created++
			}
		})
	}
	wg.Wait()
	if len(pins) != 1 || created != 1 {
		t.Errorf("%d authorities, %d made", len(pins), created)
	}
}

// What is damaged is told and stays as it is.
func TestDamagedAuthorityIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, authorityFile)
	if _, err := OpenAuthority(dir); err != nil {
		t.Fatal(err)
	}
	good := must.Get(os.ReadFile(path))(t)
	other := open(t)
	foreign := must.Get(os.ReadFile(other.path))(t)
	cut := bytes.Index(good, []byte("-----BEGIN CERTIFICATE"))
	leafFile := must.Get((&file{key: other.key, cert: forged(t, other, func(c *x509.Certificate) {}).Leaf}).encode())(t)
	broken := map[string][]byte{
		"empty":                      {},
		"noise":                      []byte("hello"),
		"no certificate":             good[:cut],
		"no key":                     good[cut:],
		"the key of another":         append(bytes.Clone(foreign[:bytes.Index(foreign, []byte("-----BEGIN CERTIFICATE"))]), good[cut:]...),
		"noise after it":             append(bytes.Clone(good), "hello"...),
		"a leaf for a root":          leafFile,
		"a changed certificate":      flip(good, cut+200),
		"a certificate too much":     append(bytes.Clone(good), leafFile[bytes.Index(leafFile, []byte("-----BEGIN CERTIFICATE")):]...),
		"a key of another algorithm": edKey(t, good[cut:]),
	}
	for i := range 20 {
		broken["cut "+string(rune('a'+i))] = good[:len(good)*i/20]
	}
	for name, text := range broken {
		must.Do(t, os.WriteFile(path, text, 0o600))
		_, err := OpenAuthority(dir)
		if err == nil {
			t.Errorf("%s: is taken", name)
			continue
		}
		says(t, err, mover.ErrCorrupt, path, "backup")
		if now, _ := os.ReadFile(path); !bytes.Equal(now, text) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func flip(text []byte, at int) []byte {
	text = bytes.Clone(text)
	if text[at]++; text[at] == '\n' || text[at] > 'z' {
		text[at] = 'A'
	}
	return text
}

func edKey(t *testing.T, rest []byte) []byte {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must.Do(t, err)
	return append(pemOf(pemKey, der), rest...)
}

func TestOthersMayNotReadTheKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenAuthority(dir); err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Chmod(filepath.Join(dir, authorityFile), 0o640))
	_, err := OpenAuthority(dir)
	says(t, err, mover.ErrPermission, "0640", "chmod 600")
	open := t.TempDir()
	must.Do(t, os.Chmod(open, 0o777))
	_, err = OpenAuthority(open)
	says(t, err, mover.ErrPermission, "0777", "chmod 700")
}

// An authority is replaced by itself while it is good, and not after.
func TestAgeOfAnAuthority(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		young, err := OpenAuthority(dir)
		must.Do(t, err)
		time.Sleep(authorityLife / 2)
		if a, err := OpenAuthority(dir); err != nil || a.Pin() != young.Pin() {
			t.Fatalf("half its life: pins equal: %v (%v)", a.Pin() == young.Pin(), err)
		}
		time.Sleep(authorityLife / 4)
		a, err := OpenAuthority(dir)
		if err != nil || a.Pin() == young.Pin() || len(a.roots()) != 2 {
			t.Fatalf("three quarters of its life: pins equal: %v, %d roots (%v)", a.Pin() == young.Pin(), len(a.roots()), err)
		}
		issued, err := young.Issue(requestOf(t, "x"), Identity{Role: User, Name: "x"}, maxLife)
		if err != nil || issued.Expires.After(young.Expires()) {
			t.Errorf("a certificate until %v of an authority until %v (%v)", issued.Expires, young.Expires(), err)
		}
		time.Sleep(authorityLife / 2)
		if n := len(a.roots()); n != 1 {
			t.Errorf("%d roots after the first has ended", n)
		}
		time.Sleep(authorityLife)
		_, err = OpenAuthority(dir)
		says(t, err, mover.ErrPermission, "ended")
	})
}

func requestOf(t *testing.T, name string) []byte {
	t.Helper()
	_, der, err := newRequest(name)
	must.Do(t, err)
	return der
}

// Nothing of a request but its key gets into the certificate.
func TestRequestExtensionsAreNotTaken(t *testing.T) {
	a := open(t)
	key, err := newKey()
	must.Do(t, err)
	ca, err := asn1.Marshal(struct{ CA bool }{true})
	must.Do(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "gpu-07", Organization: []string{"admins"}},
		DNSNames:    []string{"head-01"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
		URIs:        []*url.URL{{Scheme: scheme, Host: "user", Path: "/root"}},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: ca},
			{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}},
	}, key)
	must.Do(t, err)
	issued, err := a.Issue(request, Identity{Role: Agent, Name: "gpu-07"}, 0)
	must.Do(t, err)
	cert, err := x509.ParseCertificate(issued.Certificate)
	must.Do(t, err)
	if cert.IsCA || len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) != 0 || cert.Subject.String() != "CN=gpu-07,O=datamove" {
		t.Errorf("got CA %v, names %v %v, subject %v", cert.IsCA, cert.DNSNames, cert.IPAddresses, cert.Subject)
	}
	for _, e := range cert.Extensions {
		if e.Id.String() == "1.2.3" {
			t.Error("a foreign extension was taken")
		}
	}
	if id, err := identityOf(cert); err != nil || id.String() != "agent gpu-07" {
		t.Errorf("it speaks for %v (%v)", id, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		t.Error("it is for another key")
	}
	if life := cert.NotAfter.Sub(cert.NotBefore); life != AgentLife+skew {
		t.Errorf("it lasts %v", life)
	}
}

func TestBadRequests(t *testing.T) {
	a := open(t)
	request := func(key any, err error) []byte {
		must.Do(t, err)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "gpu-07"}}, key)
		must.Do(t, err)
		return der
	}
	_, ed, edErr := ed25519.GenerateKey(rand.Reader)
	p384, p384Err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rsaKey, rsaErr := rsa.GenerateKey(rand.Reader, 2048)
	good := requestOf(t, "gpu-07")
	unsigned := bytes.Clone(good)
	unsigned[len(unsigned)-1] ^= 1
	agent := Identity{Role: Agent, Name: "gpu-07"}
	for _, row := range []struct {
		name    string
		request []byte
		id      Identity
		life    time.Duration
		kind    error // nil is taken
		want    string
	}{
		{"P-256", good, agent, 0, nil, ""},
		{"Ed25519", request(ed, edErr), agent, 0, nil, ""},
		{"a user for a year", good, Identity{Role: User, Name: "gpu-07"}, 366 * 24 * time.Hour, nil, ""},
		{"P-384", request(p384, p384Err), agent, 0, mover.ErrUsage, "P-384"},
		{"RSA", request(rsaKey, rsaErr), agent, 0, mover.ErrUsage, "RSA"},
		{"the signature of another", unsigned, agent, 0, mover.ErrPermission, "not signed"},
		{"the name of another", requestOf(t, "gpu-08"), agent, 0, mover.ErrPermission, "gpu-08"},
		{"no name", requestOf(t, ""), agent, 0, mover.ErrPermission, `""`},
		{"noise", []byte("hello"), agent, 0, mover.ErrUsage, "can not be read"},
		{"nothing", nil, agent, 0, mover.ErrUsage, "can not be read"},
		{"something after it", append(bytes.Clone(good), 0), agent, 0, mover.ErrUsage, "can not be read"},
		{"too much", make([]byte, maxRequest+1), agent, 0, mover.ErrUsage, "at most"},
		{"the service", good, Identity{Role: Service, Name: "gpu-07"}, 0, mover.ErrPermission, "nobody"},
		{"no role", good, Identity{Name: "gpu-07"}, 0, mover.ErrUsage, "role"},
		{"a bad name", requestOf(t, "../x"), Identity{Role: Agent, Name: "../x"}, 0, mover.ErrUsage, "name"},
		{"too long", good, agent, maxLife + 1, mover.ErrUsage, "lasts"},
		{"before it begins", good, agent, -time.Hour, mover.ErrUsage, "lasts"},
	} {
		t.Run(row.name, func(t *testing.T) {
			issued, err := a.Issue(row.request, row.id, row.life)
			if row.kind == nil {
				if err != nil || len(issued.Certificate) == 0 {
					t.Error(err)
				}
				return
			}
			says(t, err, row.kind, row.want)
		})
	}
}

func TestSerials(t *testing.T) {
	seen, bits := map[string]bool{}, 0
	for range 1000 {
		s := newSerial()
		seen[s.String()] = true
		bits = max(bits, s.BitLen())
		if s.Sign() <= 0 {
			t.Fatal(s)
		}
	}
	if len(seen) != 1000 || bits > 128 || bits < 120 {
		t.Errorf("%d serials of at most %d bits", len(seen), bits)
	}
}

func TestServerNames(t *testing.T) {
	a := open(t)
	for _, bad := range []string{"", "a b", "http://x", "*.example", "1.2.3.4:443", strings.Repeat("x", 300)} {
		_, err := a.Server("head-01", bad)
		says(t, err, mover.ErrUsage)
	}
	_, err := a.Server("../x")
	says(t, err, mover.ErrUsage)
}
