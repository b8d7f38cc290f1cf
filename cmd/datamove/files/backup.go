package files

import (
	"context"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// locator reads a location and finds the path or the bucket that it is.
type locator func(arg string) (location.Location, error)

// backupDir reads --backup-dir: a folder, or for a bucket a prefix in it.
func backupDir(ctx context.Context, t *task.Request, arg string) (string, error) {
	if t.At == "" {
		return backupIn(t.App.Locate, arg, t.Engine.Target)
	}
	locate := func(arg string) (location.Location, error) {
		l, err := cli.ParseLocation(arg)
		if err != nil || !l.InTier() {
			return l, err
		}
		return resolveThere(ctx, t, l)
	}
	target, err := locate(t.Engine.Target.String())
	if err != nil {
		return "", err
	}
	return backupIn(locate, arg, target)
}

// resolveThere asks the service what a location in a tier is.
func resolveThere(ctx context.Context, t *task.Request, l location.Location) (location.Location, error) {
	c, err := t.App.Dial(ctx, t.At, task.ReachAdvice)
	if err != nil {
		return l, err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{Name: l.Tier})
	if err != nil {
		return l, err
	}
	if len(answer.GetTiers()) == 0 {
		return l, &mover.Error{Op: "find", Location: "tier", Name: l.Tier, Err: mover.ErrNotExist}
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
		return "", cli.Advise(mover.Misusef("--backup-dir %s: must be a prefix in the bucket of the target", arg), "--backup-dir "+root+"PREFIX")
	}
	return l.Prefix, nil
}

// isPath reports whether a location can only be meant as one of the file system.
func isPath(arg string) bool {
	first, _, _ := strings.Cut(arg, "/")
	return first == "" || first == "." || first == ".." || first == "~" || strings.HasPrefix(arg, "file:")
}
