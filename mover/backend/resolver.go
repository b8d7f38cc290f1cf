// Package backend opens locations as a configuration describes them: which path or
// bucket a tier is, at which endpoint, with which credentials.
//
// It owns no state. A [Resolver] is a value that may be shared; what it opens is the
// caller's. A process that may read secrets passes them (Site.Keys), or
// the backend finds them itself (a file, the AWS environment). Package config knows the tiers,
// and access what may be opened. The command line and the processes that act
// for a service open everything through here; test/script shows it.
package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// Resolver is the tiers of a cluster as this process may open them.
type Resolver struct {
	Tiers map[string]config.Tier
	// Keys are the lines of credential files, by tier, for a process that works as another UID and can
	// not read the files. A tier without keeps what its Credentials name.
	Keys map[string]string
	// Renew gives the lines of a tier as they are now, when the store says that those of
	// Keys have ended; nil is none that can.
	Renew func(ctx context.Context, tier string) (string, error)
	// Closed refuses buckets that are no tier, because their credentials would be
	// those of this process.
	Closed bool
	// Strict opens what is in a tier from the root of that tier on, over no symbolic
	// link, and no other path: for what is removed, and for what this program lays down
	// by itself, so that both are where they are said to be.
	Strict bool
	// Roots are directories that paths have to lie below, and no symbolic link may lead
	// out of: those of a project. None opens every path.
	Roots []string
	// Mounts are kinds of file systems that have to be at paths, beside those that Tiers say.
	Mounts map[string]string
	// KeepFree are percents of the file systems at paths that nothing is written into, beside those that Tiers say.
	KeepFree map[string]int32
	// Adapt changes the options of a bucket, beyond what its tier says; nil changes none.
	Adapt func(l location.Location, o *s3.Options)
	// Dial connects to stores; nil uses the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// FileSystem returns the driver for the file system of an open directory; nil has none.
	FileSystem func(dir int) (mover.FileSystem, error)
}

// Resolve makes of a location in a tier the path or the bucket that it is, so that
// two names of one place are seen to be one; a bucket remembers in Tier where its
// endpoint and credentials are described. It reports false for an unknown tier.
func (s Resolver) Resolve(l location.Location) (location.Location, bool) {
	if !l.InTier() {
		return l, true
	}
	tier, ok := s.Tiers[l.Tier]
	if !ok {
		return l, false
	}
	at := tier.At(l.Path)
	if at.TrailingSlash = l.TrailingSlash; at.InStore() {
		at.Tier = l.Tier
	}
	return at, true
}

// Open opens the place of a location that Resolve gave. It is a engine.Opener.
func (s Resolver) Open(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	open, known := drivers[l.Scheme]
	if !known {
		return nil, fmt.Errorf("%s: %w", l, mover.ErrUnsupported)
	}
	return open(s, ctx, l, o)
}

func (s Resolver) openPath(_ context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	if err := s.mounted(l); err != nil {
		return nil, err
	}
	beneath, err := s.beneath(l)
	if err != nil {
		return nil, err
	}
	p, err := posix.Open(l.Path, posix.Options{Create: o.Write, Beneath: beneath, Inside: s.Roots, Backup: o.Backup, Reflink: o.Reflink, StateDir: o.StateDir, Buffers: o.Buffers,
		KeepFree: s.keepFree(l), FileSystem: s.FileSystem, Layouts: o.Layouts})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// beneath is the root of the tier that a path has to be opened from; "" is any.
func (s Resolver) beneath(l location.Location) (root string, err error) {
	if !s.Strict {
		return "", nil
	}
	for _, t := range s.Tiers {
		if t.Path != "" && in(l, t.Path) && len(t.Path) > len(root) {
			root = t.Path
		}
	}
	if root == "" {
		return "", &mover.Error{Op: "open", Location: l.String(), Err: fmt.Errorf("%w: it is in no tier", mover.ErrRefused)}
	}
	return root, nil
}

// keepFree is the part of the file system that is kept free by the tiers that a path lies in; 0 is none.
func (s Resolver) keepFree(l location.Location) (percent int) {
	for _, t := range s.Tiers {
		if t.Path != "" && in(l, t.Path) {
			percent = max(percent, int(t.KeepFree))
		}
	}
	for path, p := range s.KeepFree {
		if in(l, path) {
			percent = max(percent, int(p))
		}
	}
	return percent
}

// in reports whether the path of a location is that of a directory, or below.
func in(l location.Location, dir string) bool {
	return mover.Within(strings.Trim(l.Path, "/"), strings.Trim(filepath.Clean(dir), "/"))
}

// mounted looks at all that has to be mounted around a path, before anything is made there.
func (s Resolver) mounted(l location.Location) error {
	for _, t := range s.Tiers {
		if t.Kind != "" && in(l, t.Path) {
			if err := Mounted(t); err != nil {
				return err
			}
		}
	}
	for path, kind := range s.Mounts {
		if in(l, path) {
			if err := Mounted(config.Tier{Path: path, Kind: kind}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mounted is mover.ErrUnreachable where a tier has to be on a kind of file system, and none of that kind is at its path:
// what would be written there would lie on the disk that the mount point is on.
func Mounted(t config.Tier) error {
	if t.Path == "" || t.Kind == "" {
		return nil
	}
	kind, err := fstype.KindAt(t.Path)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		err = fmt.Errorf("%w: it is not there, and has to be on a file system of kind %s: is it mounted?", mover.ErrUnreachable, t.Kind)
	case err != nil:
		return err
	case kind != t.Kind:
		err = fmt.Errorf("%w: it is on a file system of kind %s and has to be on one of kind %s: is it mounted?", mover.ErrUnreachable, kind, t.Kind)
	default:
		return nil
	}
	return mover.Lasting(&mover.Error{Op: "look at", Location: t.Path, Err: err})
}

// RemoveEmpty removes the folder of a location that Resolve gave, if nothing is in it.
func (s Resolver) RemoveEmpty(l location.Location) error {
	beneath, err := s.beneath(l)
	if err != nil || !l.IsPath() {
		return err
	}
	return posix.RemoveEmpty(l.Path, beneath)
}

func (s Resolver) openBucket(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	options, err := s.Bucket(l)
	if err != nil {
		return nil, err
	}
	options.Writable, options.Backup, options.StateDir, options.Logger = o.Write, o.Backup, o.StateDir, o.Logger
	options.Buffers = o.Buffers
	if s.Adapt != nil {
		s.Adapt(l, &options)
	}
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

// Bucket says how to reach the bucket of l: as its tier describes it, or else as
// the AWS environment does.
func (s Resolver) Bucket(l location.Location) (s3.Options, error) {
	o := s3.Options{Bucket: l.Bucket, Prefix: l.Prefix, Dial: s.Dial}
	if l.Tier == "" {
		if s.Closed {
			return o, &mover.Error{Op: "open", Location: l.String(), Err: fmt.Errorf("%w: the service has credentials for tiers only; name the bucket by its tier", mover.ErrPermission)}
		}
		return o, nil
	}
	tier, ok := s.Tiers[l.Tier]
	if !ok || tier.S3 == nil {
		return o, &mover.Error{Op: "open", Location: l.String(), Err: fmt.Errorf("%w: there is no bucket tier %q", mover.ErrNotExist, l.Tier)}
	}
	t := tier.S3
	o.Tier = l.Tier
	o.Endpoint, o.Region, o.Credentials, o.CABundle, o.PathStyle, o.Client = t.Endpoint, t.Region, t.Credentials, t.CA, t.PathStyle, t.Client
	o.Encryption, o.KMSKey, o.RequireRegion, o.Trusted = t.Encryption, t.KMSKey, t.RequireRegion, t.Trusted
	if o.KeyText = s.Keys[l.Tier]; o.KeyText != "" && s.Renew != nil {
		o.Renew = s.renew(l.Tier)
	}
	return o, nil
}

// renew gives the keys of a tier, and asks for others when they are wanted again.
func (s Resolver) renew(tier string) func(context.Context) (s3api.Keys, error) {
	text := s.Keys[tier]
	return func(ctx context.Context) (s3api.Keys, error) {
		given := text
		text = ""
		if given == "" {
			var err error
			if given, err = s.Renew(ctx, tier); err != nil {
				return s3api.Keys{}, err
			}
		}
		return s3api.ParseKeys(given)
	}
}

// present reports mover.ErrNotExist for a prefix below which there is nothing: a
// store does not tell a prefix that is empty from one that was mistyped.
func present(ctx context.Context, p *s3.Backend, l location.Location) error {
	if l.Prefix == "" {
		return nil
	}
	if holds, err := p.HoldsAny(ctx); holds || err != nil {
		return err
	}
	root, err := p.Stat(ctx, "")
	if err == nil && root.Known == 0 { // a folder that was copied here has a marker with facts
		err = &mover.Error{Op: "open", Location: p.String(), Err: fmt.Errorf("there is nothing below this prefix: %w", mover.ErrNotExist)}
	}
	return err
}
