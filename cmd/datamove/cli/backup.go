package cli

import (
	"context"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// locator reads a location and finds the path or the bucket that it is.
type locator func(arg string) (location.Location, error)

// backup reads --backup-dir: a folder, or for a bucket a prefix in it.
func (t *task) backup(ctx context.Context, arg string) (string, error) {
	if t.at == "" {
		return backupIn(t.app.locate, arg, t.request.Target)
	}
	locate := func(arg string) (location.Location, error) {
		l, err := absolute(arg)
		if err != nil || !l.InTier() {
			return l, err
		}
		return t.resolveThere(ctx, l)
	}
	target, err := locate(t.request.Target.String())
	if err != nil {
		return "", err
	}
	return backupIn(locate, arg, target)
}

// resolveThere asks the service what a location in a tier is.
func (t *task) resolveThere(ctx context.Context, l location.Location) (location.Location, error) {
	c, err := t.app.dial(ctx, t.at, reachAdvice)
	if err != nil {
		return l, err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{Name: l.Tier})
	if err != nil {
		return l, err
	}
	if len(answer.GetTiers()) == 0 {
		return l, &mover.Error{Op: "find", Place: "tier", Name: l.Tier, Err: mover.ErrNotExist}
	}
	root, err := location.Parse(answer.GetTiers()[0].GetLocation()) // a node-local one is the same path everywhere
	if err != nil {
		return l, err
	}
	at := root.Child(l.Path)
	if at.TrailingSlash = l.TrailingSlash; at.InStore() {
		at.Tier = l.Tier
	}
	return at, nil
}

func backupIn(locate locator, arg string, target location.Location) (string, error) {
	if target.InStore() {
		return backupPrefix(locate, arg, target)
	}
	l, err := locate(arg)
	if err != nil {
		return "", err
	}
	if !l.IsPath() {
		return "", mover.Misusef("--backup-dir %s: must be a folder on the file system of the target", arg)
	}
	return l.Path, nil
}

// backupPrefix reads --backup-dir for a target in a bucket: a location in the same
// bucket, written as the target is, or only what stands behind the bucket or tier.
func backupPrefix(locate locator, arg string, target location.Location) (string, error) {
	root := "s3://" + target.Bucket + "/"
	if target.Tier != "" {
		root = target.Tier + ":"
	}
	whole := arg
	if l, err := location.Parse(arg); err == nil && l.IsPath() && !isPath(arg) {
		whole = root + arg
	}
	l, err := locate(whole)
	if err != nil {
		return "", err
	}
	if !l.InStore() || l.Bucket != target.Bucket || l.Tier != target.Tier || l.Prefix == "" {
		return "", advise(mover.Misusef("--backup-dir %s: must be a prefix in the bucket of the target", arg), "--backup-dir "+root+"PREFIX")
	}
	return l.Prefix, nil
}

// isPath reports whether a location can only be meant as one of the file system.
func isPath(arg string) bool {
	first, _, _ := strings.Cut(arg, "/")
	return first == "" || first == "." || first == ".." || first == "~" || strings.HasPrefix(arg, "file:")
}
