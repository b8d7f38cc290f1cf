package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var architectures = []string{"amd64", "arm64"}

// programsIn builds stand-ins for the programs, which say who they are.
func programsIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"here\") }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures {
		one := filepath.Join(dir, programs[0]+"-linux-"+arch)
		goBuild(t, one, source, "CGO_ENABLED=0", "GOARCH="+arch)
		text, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range programs[1:] {
			if err := os.WriteFile(filepath.Join(dir, p+"-linux-"+arch), text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func goBuild(t *testing.T, to, source string, env ...string) {
	t.Helper()
	c := exec.Command("go", "build", "-trimpath", "-o", to, source)
	c.Env = append(os.Environ(), append(env, "GOOS=linux")...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func factsOf(dir string) facts {
	return facts{Dir: dir, Architectures: architectures, Version: "v1.2.3", Revision: "abc", Source: "https://datamove.dev", Time: time.Unix(1_700_000_000, 0).UTC()}
}

// The same programs give the same bytes, at any time and wherever they lie.
func TestSame(t *testing.T) {
	dir, tag := programsIn(t), name.MustParseReference("datamove.dev/datamove:v1.2.3").(name.Tag)
	again := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	outs := []string{t.TempDir(), t.TempDir()}
	for i, from := range []string{dir, again} {
		m, err := build(factsOf(from))
		if err == nil {
			_, err = archives(outs[i], tag, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"datamove.tar", "datamove-amd64.tar", "datamove-arm64.tar"} {
		a, err := os.ReadFile(filepath.Join(outs[0], file))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(outs[1], file)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", file, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(outs[0], ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Layouts are valid, an archive for docker is one, and in the image is what has to be there.
func TestArchives(t *testing.T) {
	out, tag := t.TempDir(), name.MustParseReference("datamove.dev/datamove:v1.2.3").(name.Tag)
	m, err := build(factsOf(programsIn(t)))
	if err != nil {
		t.Fatal(err)
	}
	files, err := archives(out, tag, m)
	if err != nil || len(files) != 1+len(architectures) {
		t.Fatalf("%v, %v", files, err)
	}
	index, err := layout.ImageIndexFromPath(unpacked(t, files[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "datamove.dev/datamove:v1.2.3" {
		t.Errorf("%+v, %v", top, err)
	}
	for i, arch := range architectures {
		docker, err := tarball.ImageFromPath(files[1+i], &tag)
		if err != nil {
			t.Fatalf("as docker reads it: %v", err)
		}
		config, err := docker.ConfigFile()
		if err != nil || config.Architecture != arch || config.Config.Labels["org.opencontainers.image.revision"] != "abc" || config.Config.User != "" || config.Config.Entrypoint != nil {
			t.Errorf("%+v, %v", config, err)
		}
		if one, err := layout.ImageIndexFromPath(unpacked(t, files[1+i])); err != nil || validate.Index(one) != nil {
			t.Errorf("%s: %v, %v", arch, err, validate.Index(one))
		}
		look(t, docker)
	}
}

// look looks into an image, and runs what it can.
func look(t *testing.T, image v1.Image) {
	t.Helper()
	dir := t.TempDir()
	unpackInto(t, dir, mutate.Extract(image))
	text, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(text) || strings.Count(string(text), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("authorities: %v, %d bytes", err, len(text))
	}
	if info, err := os.Stat(filepath.Join(dir, "tmp")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("tmp: %v, %v", info, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		info, err := os.Stat(filepath.Join(dir, "bin", p))
		if err != nil || info.Mode() != 0o755 {
			t.Fatalf("%s: %v, %v", p, info, err)
		}
		if config.Architecture != runtime.GOARCH {
			continue
		}
		if out, err := exec.Command(filepath.Join(dir, "bin", p)).CombinedOutput(); err != nil || string(out) != "here\n" {
			t.Errorf("%s: %s, %v", p, out, err)
		}
	}
}

func unpacked(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpackInto(t, dir, f)
	return dir
}

func unpackInto(t *testing.T, dir string, from io.ReadCloser) {
	t.Helper()
	defer from.Close()
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else {
			text, err := io.ReadAll(r)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(path), 0o755)
			}
			if err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// A registry has the image under the version, for each architecture.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/team/datamove"
	args := []string{"-programs", programsIn(t), "-out", t.TempDir(), "-version", "v7", "-push", to}
	if err := run(context.Background(), args); err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures {
		image, err := remote.Image(tagOf(t, to+":v7"), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
	}
	args[len(args)-1] = to + ":other"
	if err := run(context.Background(), args); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Index(tagOf(t, to+":other")); err != nil {
		t.Error(err)
	}
}

func tagOf(t *testing.T, text string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(text)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// What would not run on an empty base gets into no image.
func TestRefused(t *testing.T) {
	dir := programsIn(t)
	source := filepath.Join(dir, "main.go")
	ours := "datamoved-linux-" + runtime.GOARCH
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for what, env := range map[string][]string{
		"for another architecture": {"CGO_ENABLED=0", "GOARCH=" + other},
		"with cgo":                 {"CGO_ENABLED=1"},
	} {
		goBuild(t, filepath.Join(dir, ours), source, env...)
		if _, err := build(factsOf(dir)); err == nil || !strings.Contains(err.Error(), ours+" was built with") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, ours)); err != nil {
		t.Fatal(err)
	}
	if _, err := build(factsOf(dir)); err == nil || !strings.Contains(fmt.Sprint(err), ours) {
		t.Errorf("missing: %v", err)
	}
}
