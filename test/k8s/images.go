package k8s

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/vm"
)

// Image is one of static programs, and nothing else.
type Image struct {
	Name  string            // with a tag
	Files map[string]string // of this machine, by where they are in it
	Entry []string
}

// The images that every cluster has: what holds the namespaces of a pod, and what pods of tests run.
const (
	Pause  = "datamove.test/pause:1"
	Worker = "datamove.test/worker:1"
)

// Images writes archives, as docker load and ctr images import read them, of images and of those that every cluster has.
func Images(t testing.TB, images ...Image) (archives []string) {
	t.Helper()
	dir := t.TempDir()
	worker := must.Get(vm.Build(dir, "datamove.dev/test/k8s/worker"))(t)
	images = append(images, Image{Pause, map[string]string{"worker": worker}, []string{"/worker", "pause"}}, Image{Worker, map[string]string{"worker": worker}, []string{"/worker"}})
	for _, i := range images {
		archive := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(i.Name)+".tar")
		must.Do(t, i.write(archive))
		archives = append(archives, archive)
	}
	return archives
}

// write writes one as an archive of docker save (moby/docker-image-spec, version 1.2): a configuration, a layer, and a manifest.
func (i *Image) write(archive string) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": i.Entry},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return err
	}
	name := digest(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": name, "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		text []byte
	}{{name, config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := add(w, f.name, 0o644, f.text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o600)
}

func (i *Image) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, file := range i.Files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := add(w, name, 0o755, text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func add(w *tar.Writer, name string, mode int64, text []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
