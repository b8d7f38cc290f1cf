package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// programs are in the image, in /bin.
var programs = []string{"datamove", "datamove-bench", "datamove-csi", "datamoved"}

// The accounts of a coordinator, and of no file. An agent gets the accounts of its node by a mount of its own.
const (
	accounts = "root:x:0:0:root:/:/sbin/nologin\ndatamove:x:64643:64643:datamove coordinator:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	groups   = "root:x:0:\ndatamove:x:64643:\nnobody:x:65534:\n"
)

// content is what an image has, in the order of its archive.
type content struct {
	entries []entry
	time    time.Time
}

// entry is a directory, a text, or a file of this machine.
type entry struct {
	name string
	mode int64
	text []byte
	file string
}

// content lists what is in the image for an architecture. Directories that nothing is in are there for
// mounts, below a root that is read-only.
func (f facts) content(arch string) (*content, error) {
	c := &content{time: f.Time, entries: []entry{
		{name: "bin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "etc/datamove/", mode: 0o755},
		{name: "etc/group", mode: 0o644, text: []byte(groups)},
		{name: "etc/passwd", mode: 0o644, text: []byte(accounts)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: roots()},
		{name: "run/", mode: 0o755},
		{name: "run/datamove/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/datamove/", mode: 0o755},
	}}
	for _, program := range programs {
		file := filepath.Join(f.Dir, program+"-linux-"+arch)
		if err := static(file, arch); err != nil {
			return nil, err
		}
		c.entries = append(c.entries, entry{name: "bin/" + program, mode: 0o755, file: file})
	}
	return c, nil
}

// static reports what keeps a program from running on an empty base.
func static(file, arch string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	if built["CGO_ENABLED"] != "0" || built["GOARCH"] != arch || built["GOOS"] != "linux" {
		return fmt.Errorf("%s was built with CGO_ENABLED=%s GOOS=%s GOARCH=%s: it has to be 0, linux and %s", file, built["CGO_ENABLED"], built["GOOS"], built["GOARCH"], arch)
	}
	return nil
}

// roots are Mozilla's authorities, for the endpoints of buckets, as a file: a site puts its own there by
// a mount. Those that are trusted for some names or some time only have no way to say so in a file, and are left out.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes all
		}
	}
	return b.Bytes()
}

// open begins to read the archive.
func (c *content) open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(c.write(w)) }()
	return r, nil
}

func (c *content) write(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, e := range c.entries {
		if err := c.add(t, e); err != nil {
			return err
		}
	}
	return t.Close()
}

func (c *content) add(t *tar.Writer, e entry) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: c.time, Typeflag: tar.TypeReg, Size: int64(len(e.text)), Format: tar.FormatPAX}
	var from io.Reader = bytes.NewReader(e.text)
	if e.name[len(e.name)-1] == '/' {
		h.Typeflag = tar.TypeDir
	}
	if e.file != "" {
		f, err := os.Open(e.file)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.Size, from = info.Size(), f
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, from)
	return err
}
