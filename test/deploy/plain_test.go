package deploy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"datamove.dev/test/must"
)

var update = flag.Bool("update", false, "write deploy/kubernetes, and the table of the chart's README.md")

// source is the line by which helm says of which template a document is.
var source = regexp.MustCompile(`(?m)^# Source: datamove/templates/(\S+)\n`)

// ofHelm are lines that are not so where there is no helm, and those that templates leave empty.
var ofHelm = regexp.MustCompile(`(?m)^ *((helm\.sh/chart|app\.kubernetes\.io/managed-by): .*)?\n`)

// apart are the files of what a cluster may have no types for: each in a directory with a kustomization of its own.
var apart = map[string]string{"snapshot-classes.yaml": "snapshots/classes.yaml", "attributes-classes.yaml": "attributes/classes.yaml"}

// manifests are the files of deploy/kubernetes as the chart makes them.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, d := range split(render(t, filepath.Join(plain, "values.yaml"))) {
		m := source.FindStringSubmatch(d)
		if m == nil {
			t.Fatalf("of no template: %.200s", d)
		}
		text := ofHelm.ReplaceAllString(source.ReplaceAllString(d, ""), "")
		files[cmp.Or(apart[m[1]], m[1])] += "---\n" + strings.TrimLeft(text, "\n")
	}
	return files
}

// What is in deploy/kubernetes is what the chart makes, all of it, and nothing else.
func TestPlain(t *testing.T) {
	made := manifests(t)
	var there []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		files := must.Get(filepath.Glob(filepath.Join(plain, pattern)))(t)
		there = append(there, files...)
	}
	const mend = "go test ./test/deploy -run TestPlain -update"
	for name, text := range made {
		file := filepath.Join(plain, name)
		if *update {
			must.Do(t, os.WriteFile(file, []byte(text), 0o644))
			continue
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%s is not what the chart makes (%v): %s", file, err, mend)
		}
	}
	listed := map[string]bool{}
	for _, dir := range []string{"", "snapshots", "attributes"} {
		name := filepath.Join(dir, "kustomization.yaml")
		k := of[*kustomization](objects(t, name, document(t, filepath.Join(plain, name))))[0]
		for _, r := range k.Resources {
			listed[filepath.Join(dir, r)] = true
		}
	}
	for name := range made {
		if !listed[name] {
			t.Errorf("no kustomization.yaml has %s", name)
		}
	}
	ours := []string{"values.yaml", "namespace.yaml"}
	for _, file := range there {
		name := must.Get(filepath.Rel(plain, file))(t)
		if made[name] == "" && !slices.Contains(ours, name) && filepath.Base(name) != "kustomization.yaml" {
			t.Errorf("%s is of nobody: remove it", file)
		}
	}
	if len(listed) != len(made)+1 || !listed["namespace.yaml"] {
		t.Errorf("kustomizations have %v", listed)
	}
}

// What every supported cluster has the types for is by itself: the rest would keep kubectl from applying it.
func TestPlainApart(t *testing.T) {
	found := 0
	for name, text := range manifests(t) {
		all := objects(t, name, text)
		foreign := len(of[*snapshotClass](all)) + len(of[*storagev1.VolumeAttributesClass](all)) + len(of[*serviceMonitor](all))
		if own := strings.Contains(name, "/"); own != (foreign > 0) || own && foreign != len(all) {
			t.Errorf("%s has %d of %d objects that a cluster may not know", name, foreign, len(all))
		}
		found += foreign
	}
	if found < 3 {
		t.Errorf("%d of them", found)
	}
}

// The Secrets of the script are those that the manifests name, and each side knows the other by them.
func TestRelaySecrets(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is missing")
	}
	out := must.Get(exec.Command(filepath.Join(plain, "relay-secrets"), "storage").Output())(t)
	all := map[string]*corev1.Secret{}
	for _, s := range of[*corev1.Secret](objects(t, "relay-secrets", string(out))) {
		all[s.Name] = s
	}
	mutual(t, all["datamove-relay-controller"], all["datamove-relay-node"])
	for name, s := range all {
		if s.Namespace != "storage" || !strings.Contains(render(t, filepath.Join(plain, "values.yaml")), name) {
			t.Errorf("%s/%s is asked for by nobody", s.Namespace, name)
		}
	}
}

// So are those that the chart makes.
func TestRelayOfChart(t *testing.T) {
	all := map[string]*corev1.Secret{}
	for _, s := range of[*corev1.Secret](objects(t, "", render(t, ""))) {
		all[s.Name] = s
	}
	mutual(t, all["datamove-relay-controller"], all["datamove-relay-node"])
}

// mutual has a controller call a node.
func mutual(t *testing.T, controller, node *corev1.Secret) {
	t.Helper()
	if controller == nil || node == nil || controller.Type != corev1.SecretTypeTLS {
		t.Fatalf("%v, %v", controller, node)
	}
	config := func(s *corev1.Secret) *tls.Config {
		pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(s.Data["ca.crt"]) {
			t.Fatalf("%s: %s", s.Name, base64.StdEncoding.EncodeToString(s.Data["ca.crt"]))
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	listener := must.Get(tls.Listen("tcp", "127.0.0.1:0", config(node)))(t)
	defer listener.Close()
	client := config(controller)
	client.ServerName = "node.csi.datamove.dev"
	called := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), client)
		if err == nil {
			_, err = conn.Write([]byte("x"))
			_ = conn.Close()
		}
		called <- err
	}()
	conn := must.Get(listener.Accept())(t)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Errorf("the node hears nothing: %v", err)
	}
	if err := <-called; err != nil {
		t.Errorf("the controller: %v", err)
	}
	peer := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	must.Tell(t, peer.VerifyHostname("controller.csi.datamove.dev"))
}
