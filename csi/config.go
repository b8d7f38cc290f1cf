package csi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/lustre"
	"datamove.dev/lustre/gpfs"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Config is the driver's configuration: which file systems it makes volumes on, and which pods may
// have what was there before.
type Config struct {
	FileSystems map[string]FileSystem `yaml:"fileSystems"`
	Grants      volume.Grants         `yaml:"grants"`
	Service     string                `yaml:"service"`    // of the mover; "" has no datasets, copies and archives
	MaxVolumes  int64                 `yaml:"maxVolumes"` // of this driver on a node; 0 is no limit
}

// FileSystem is one of them.
type FileSystem struct {
	Use        volume.Kind `yaml:"use"`        // project (every node has it) or scratch (each node has its own)
	Kind       lustre.Kind `yaml:"kind"`       // what it has to be: nothing is made where it is not mounted
	Root       string      `yaml:"root"`       // absolute: where it is mounted; of a shared file system also a directory of it
	Volumes    string      `yaml:"volumes"`    // below Root: where volumes are made; "" makes none
	ProjectIDs string      `yaml:"projectIDs"` // FIRST-LAST: no other software gives these to directories (Lustre, ext4, xfs)
	Unenforced bool        `yaml:"unenforced"` // make volumes though nothing holds them to their capacity
	Tier       string      `yaml:"tier"`       // what the mover calls Root; "" copies nothing there
	Mount      *Mount      `yaml:"mount"`      // nil: it is there
	// MountPerVolume mounts the directory of each volume by itself on a node: so each can have a label of SELinux, and a
	// kubelet takes none for another. It needs Mount.
	MountPerVolume bool  `yaml:"mountPerVolume"`
	KeepFree       int   `yaml:"keepFree"` // of scratch: percent of the file system that no volume is promised
	GPFS           *GPFS `yaml:"gpfs"`
}

// Mount is how the driver mounts a file system at its Root.
type Mount struct {
	Type    string   `yaml:"type"`
	Source  string   `yaml:"source"`
	Options []string `yaml:"options"`
}

// GPFS is how Storage Scale is asked.
type GPFS struct {
	Device      string `yaml:"device"` // without /dev/
	URL         string `yaml:"url"`
	Credentials string `yaml:"credentials"`
	CA          string `yaml:"ca"`
	Commands    string `yaml:"commands"`
}

// ParseConfig reads one. What it does not know it refuses by name and line.
func ParseConfig(text []byte) (*Config, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	c := &Config{}
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	var problems []error
	if c.MaxVolumes < 0 {
		problems = append(problems, fmt.Errorf("%w: maxVolumes is %d", mover.ErrUsage, c.MaxVolumes))
	}
	for _, name := range slices.Sorted(maps.Keys(c.FileSystems)) {
		f := c.FileSystems[name]
		if err := errors.Join(volume.ValidName(name), f.validate()); err != nil {
			problems = append(problems, fmt.Errorf("file system %s: %w", mover.Printable(name), err))
		}
	}
	for i := range c.Grants {
		if err := c.Grants[i].Validate(); err != nil {
			problems = append(problems, fmt.Errorf("grant %d: %w", i+1, err))
		}
	}
	return c, errors.Join(problems...)
}

func (f *FileSystem) validate() error {
	switch {
	case f.Use != volume.Project && f.Use != volume.Scratch:
		return mover.Usagef("use has to be project or scratch")
	case f.Kind == "":
		return mover.Usagef("kind has to be said (lustre, gpfs, cephfs, nfs, btrfs, ext4, xfs): where something else is mounted, or nothing, no volume is made")
	case !filepath.IsAbs(f.Root) || filepath.Clean(f.Root) != f.Root || f.Root == "/":
		return mover.Usagef("root has to be an absolute directory: where the file system is mounted")
	case f.Volumes != "" && !mover.ValidName(f.Volumes):
		return mover.Usagef("volumes has to be a directory below root, relative to it")
	case f.Use == volume.Scratch && f.Volumes == "":
		return mover.Usagef("scratch needs volumes: a directory below root that is the driver's")
	case f.MountPerVolume && (f.Mount == nil || f.Use != volume.Project || !mount.Separable(f.Mount.Type)):
		return mover.Usagef("mountPerVolume needs use: project, and a mount of type lustre, nfs, nfs4, ceph or btrfs")
	case f.KeepFree < 0 || f.KeepFree > 99:
		return mover.Usagef("keepFree is a percentage from 0 to 99")
	}
	_, err := f.ids()
	return err
}

// ids are the project IDs that are the driver's.
func (f *FileSystem) ids() (volumestore.Range, error) {
	if f.ProjectIDs == "" {
		return volumestore.Range{}, nil
	}
	first, last, err := units.ParseIDs(f.ProjectIDs)
	if err != nil {
		return volumestore.Range{}, fmt.Errorf("%w: projectIDs is %w", mover.ErrUsage, err)
	}
	return volumestore.Range{First: first, Last: last}, nil
}

// spec is the file system as package volumestore has it, on a node.
func (c *Config) spec(name, node string) volumestore.Spec {
	f := c.FileSystems[name]
	ids, _ := f.ids() // it was read before
	s := volumestore.Spec{Name: name, Kind: f.Kind, Root: f.Root, Volumes: f.Volumes, IDs: ids, Unenforced: f.Unenforced, Mounted: f.Mount != nil}
	if f.Use == volume.Scratch {
		s.Promise, s.Node = &volumestore.Promise{KeepFree: f.KeepFree}, node
	}
	if g := f.GPFS; g != nil {
		s.GPFS = map[string]gpfs.Options{g.Device: {URL: g.URL, CredentialsFile: g.Credentials, CABundle: g.CA, CommandsDir: g.Commands}}
	}
	return s
}

func (m *Mount) spec() mount.Spec {
	return mount.Spec{Type: m.Type, Source: m.Source, Options: m.Options}
}

// pick finds the file system that parameters name, or the only one of their kind.
func (c *Config) pick(p volume.Parameters) (string, error) {
	var names []string
	for name, f := range c.FileSystems {
		if f.Use == p.Kind && f.Volumes != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case p.FileSystem != "" && slices.Contains(names, p.FileSystem):
		return p.FileSystem, nil
	case p.FileSystem == "" && len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", fmt.Errorf("%w: the driver's configuration has no file system for volumes of type %s", mover.ErrUsage, p.Kind)
	case p.FileSystem == "":
		return "", fmt.Errorf("%w: parameter fileSystem has to name one of %s", mover.ErrUsage, strings.Join(names, ", "))
	}
	return "", fmt.Errorf("%w: parameter fileSystem is %s, and volumes of type %s are made on %s", mover.ErrUsage, strconv.Quote(p.FileSystem), p.Kind, strings.Join(names, ", "))
}
