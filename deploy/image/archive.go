package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// archives writes datamove.tar with all architectures, and one for each.
func archives(dir string, tag name.Tag, m *made) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	all := filepath.Join(dir, "datamove.tar")
	files := []string{all}
	if err := archive(all, func(p layout.Path) error { return p.AppendIndex(m.index, named(tag)) }); err != nil {
		return nil, err
	}
	for _, arch := range slices.Sorted(maps.Keys(m.each)) {
		image := m.each[arch]
		file := filepath.Join(dir, "datamove-"+arch+".tar")
		err := archive(file, func(p layout.Path) error {
			if err := p.AppendImage(image, named(tag), layout.WithPlatform(v1.Platform{OS: "linux", Architecture: arch})); err != nil {
				return err
			}
			return forDocker(string(p), tag, image)
		})
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// named are the annotations by which containerd and others know the name of an image in a layout.
func named(tag name.Tag) layout.Option {
	return layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": tag.Name(), "org.opencontainers.image.ref.name": tag.TagStr(),
	})
}

// forDocker adds the list that docker load looked for before it knew layouts.
func forDocker(dir string, tag name.Tag, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	one := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{blob(manifest.Config.Digest), []string{tag.Name()}, nil}
	for _, l := range manifest.Layers {
		one.Layers = append(one.Layers, blob(l.Digest))
	}
	text, err := json.Marshal([]any{one})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644)
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// archive writes the layout that fill makes as a tar, whole or not at all.
func archive(file string, fill func(layout.Path) error) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "layout")
	path, err := layout.Write(tree, empty.Index)
	if err == nil {
		err = fill(path)
	}
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pack(f, tree); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// pack writes a tree in the order of its names, with no time of this machine.
func pack(to io.Writer, tree string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	t := tar.NewWriter(to)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size()}); err != nil {
			return err
		}
		_, err = io.Copy(t, f)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
