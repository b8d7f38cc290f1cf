package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/mover/posix"
	"datamove.dev/mover/s3"
)

// locate reads one location of the command line. Paths become absolute, and a tier
// its path or bucket, so that two names of one place are seen to be one; a bucket
// remembers in Tier where its endpoint and credentials are described.
func (a *app) locate(arg string) (location.Location, error) {
	l, err := location.Parse(arg)
	switch {
	case err != nil:
		return l, err
	case l.Scheme == location.InTier:
		return a.resolve(l)
	case l.Scheme == location.Dataset:
		return l, fmt.Errorf("%s: datasets are named by a service, and this command works in its own process: %w", l, mover.ErrUnsupported)
	case l.Scheme == location.POSIX:
		l.Path, err = filepath.Abs(l.Path)
	}
	return l, err
}

func (a *app) resolve(l location.Location) (location.Location, error) {
	conf, err := a.config()
	if err != nil {
		return l, err
	}
	tier, ok := conf.Tiers[l.Tier]
	if !ok {
		return l, unknownTier(conf, l)
	}
	if tier.S3 == nil {
		path := filepath.Join(tier.Path, filepath.FromSlash(l.Path))
		return location.Location{Scheme: location.POSIX, Path: path, TrailingSlash: l.TrailingSlash}, nil
	}
	prefix := mover.Join(strings.Trim(tier.S3.Prefix, "/"), l.Path)
	if l.Path == "" {
		prefix = strings.Trim(tier.S3.Prefix, "/")
	}
	return location.Location{Scheme: location.S3, Tier: l.Tier, Bucket: tier.S3.Bucket, Prefix: prefix, TrailingSlash: l.TrailingSlash}, nil
}

func unknownTier(conf *config.Config, l location.Location) error {
	err := usage("there is no tier %q: no configuration was found", l.Tier)
	if conf.File != "" {
		err = usage("there is no tier %q in %s; there are: %s", l.Tier, conf.File,
			strings.Join(slices.Sorted(maps.Keys(conf.Tiers)), ", "))
	}
	return advise(err, "./"+l.String()+" if it is a path with a colon")
}

// open is the local.Opener of this program.
func (a *app) open(ctx context.Context, l location.Location, o local.OpenOptions) (mover.Place, error) {
	switch l.Scheme {
	case location.POSIX:
		p, err := posix.Open(l.Path, posix.Options{Create: o.Write, Backup: o.Backup, Reflink: reflinks[o.Reflink], StateDir: o.StateDir, Buffers: o.Buffers})
		if err != nil {
			return nil, err
		}
		return p, nil
	case location.S3:
		options, err := a.bucket(l)
		if err != nil {
			return nil, err
		}
		options.Writable, options.Backup, options.StateDir, options.Logger = o.Write, o.Backup, o.StateDir, o.Logger
		options.Buffers = o.Buffers
		p, err := s3.Open(ctx, options)
		if err != nil {
			return nil, err
		}
		if o.Write {
			return p, nil
		}
		if err := present(ctx, p, l); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return p, nil
	}
	return nil, fmt.Errorf("%s: %w", l, mover.ErrUnsupported)
}

// present reports mover.ErrNotExist for a prefix below which there is nothing: a
// store does not tell a prefix that is empty from one that was mistyped.
func present(ctx context.Context, p mover.Place, l location.Location) error {
	if l.Prefix == "" {
		return nil
	}
	for _, err := range p.Walk(ctx, mover.WalkOptions{}) {
		return err
	}
	root, err := p.Stat(ctx, "")
	if err == nil && root.Known == 0 { // a folder that was copied here has a marker with facts
		err = &mover.Error{Op: "open", Place: p.String(), Err: fmt.Errorf("there is nothing below this prefix: %w", mover.ErrNotExist)}
	}
	return err
}

var reflinks = map[local.Reflink]posix.Reflink{local.ReflinkAuto: posix.ReflinkAuto, local.ReflinkNever: posix.ReflinkNever}

// bucket says how to reach the bucket of l: as its tier describes it, or else as
// the AWS environment does.
func (a *app) bucket(l location.Location) (s3.Options, error) {
	o := s3.Options{Bucket: l.Bucket, Prefix: l.Prefix}
	if l.Tier == "" {
		return o, nil
	}
	conf, err := a.config()
	if err != nil {
		return o, err
	}
	t := conf.Tiers[l.Tier].S3
	o.Endpoint, o.Region, o.Credentials, o.CABundle, o.PathStyle, o.Client = t.Endpoint, t.Region, t.Credentials, t.CA, t.PathStyle, t.Client
	return o, nil
}

// backup reads --backup-dir: a folder, or for a bucket a prefix in it.
func (a *app) backup(arg string, target location.Location) (string, error) {
	if target.Scheme == location.S3 {
		return a.backupPrefix(arg, target)
	}
	l, err := a.locate(arg)
	if err != nil {
		return "", err
	}
	if l.Scheme != location.POSIX {
		return "", usage("--backup-dir %s: must be a folder on the file system of the target", arg)
	}
	return l.Path, nil
}

// backupPrefix reads --backup-dir for a target in a bucket: a location in the same
// bucket, written as the target is, or only what stands behind the bucket or tier.
func (a *app) backupPrefix(arg string, target location.Location) (string, error) {
	root := "s3://" + target.Bucket + "/"
	if target.Tier != "" {
		root = target.Tier + ":"
	}
	whole := arg
	if l, err := location.Parse(arg); err == nil && l.Scheme == location.POSIX && !isPath(arg) {
		whole = root + arg
	}
	l, err := a.locate(whole)
	if err != nil {
		return "", err
	}
	if l.Scheme != location.S3 || l.Bucket != target.Bucket || l.Tier != target.Tier || l.Prefix == "" {
		return "", advise(usage("--backup-dir %s: must be a prefix in the bucket of the target", arg), "--backup-dir "+root+"PREFIX")
	}
	return l.Prefix, nil
}

// isPath reports whether a location can only be meant as one of the file system.
func isPath(arg string) bool {
	first, _, _ := strings.Cut(arg, "/")
	return first == "" || first == "." || first == ".." || first == "~" || strings.HasPrefix(arg, "file:")
}
