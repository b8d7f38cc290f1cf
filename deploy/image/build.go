package main

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// facts are what an image is made of.
type facts struct {
	Dir                       string   // with the programs
	Architectures             []string // as Go names them
	Version, Revision, Source string
	Time                      time.Time // of everything
}

// made is the image, and what it is for each architecture.
type made struct {
	index v1.ImageIndex
	each  map[string]v1.Image
}

// labels are those of opencontainers/image-spec.
func (f facts) labels() map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "datamove",
		"org.opencontainers.image.description": "the data mover of a tiered AI cluster, and its CSI driver",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     f.Version,
		"org.opencontainers.image.source":      f.Source,
		"org.opencontainers.image.created":     f.Time.Format(time.RFC3339),
	}
	if f.Revision != "" {
		all["org.opencontainers.image.revision"] = f.Revision
	}
	return all
}

// build makes the image of every architecture.
func build(f facts) (*made, error) {
	m := &made{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex), each: map[string]v1.Image{}}
	for _, arch := range f.Architectures {
		image, err := f.image(arch)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		m.each[arch] = image
		m.index = mutate.AppendManifests(m.index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	m.index = mutate.Annotations(m.index, f.labels()).(v1.ImageIndex)
	return m, nil
}

// image makes that of one. It has no entrypoint: the command says which of the programs it is. It names no
// user either: an agent has to be root, a coordinator must not, and the deployment says so.
func (f facts) image(arch string) (v1.Image, error) {
	content, err := f.content(arch)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(content.open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: f.Time}, CreatedBy: "make image", Comment: strings.Join(programs, ", "),
	}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: f.Time}
	config.Config = v1.Config{
		Cmd: []string{"/bin/datamove", "help"}, Env: []string{"PATH=/bin"}, WorkingDir: "/", Labels: f.labels(),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, f.labels()).(v1.Image), nil
}
