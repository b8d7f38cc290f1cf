package s3

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/engine/bufpool"
)

// Options says which bucket, and how to reach it. Only Bucket has no default.
type Options struct {
	// How the bucket is reached. [s3api.Options] describes these fields.
	Endpoint      string
	Region        string
	RequireRegion string // Open refuses another region before any byte of data is read or written
	Bucket        string
	PathStyle     *bool
	Credentials   string
	Tier          string
	KeyText       string
	Renew         func(ctx context.Context) (s3api.Keys, error)
	CABundle      string
	Client        string
	Dial          func(ctx context.Context, network, address string) (net.Conn, error)

	Prefix string // keys below it are the place; "" is the whole bucket

	// Trusted says that the facts of objects may set rights, as the accounts that write below Prefix are trusted: see mover.FactPrivileges.
	Trusted bool

	// Writable says that the place is a target: what the bucket really checks is then
	// probed with small objects below Prefix/.datamove/, once a week. A place that was
	// never probed trusts no checksum and no condition.
	Writable bool
	// Encryption is how the store is to encrypt what this place writes: one of
	// [Encryptions], or "", which leaves it to the bucket. It is believed only where the
	// answers say so; where they do not, Open of a Writable place fails with
	// mover.ErrRefused before any data goes there, and so does each write.
	Encryption string
	// KMSKey is the key for it: an ARN, an id, alias/NAME or the ARN of an alias; "" is the
	// usual one of the store. Which key an alias stands for is what the first answer of
	// the store says, and all later ones have to say the same.
	KMSKey string

	// Backup is a prefix of the same bucket that keeps what is replaced and removed;
	// "" keeps nothing. It may lie below Prefix, where walks leave it out.
	Backup string

	Parallel int           // calls that the place has in flight by itself; 0 means 128, and 16 for walks
	Stall    time.Duration // how long a server may be silent; 0 means a minute
	StateDir string        // profiles, and locks where the bucket has none; "" is $XDG_STATE_HOME/datamove
	Buffers  *bufpool.Pool // for drafts of one part and for parts; nil is the pool of the process
	Logger   *slog.Logger  // nil means no log
}

// API is how the bucket is reached.
func (o *Options) API() s3api.Options {
	return s3api.Options{
		Endpoint: o.Endpoint, Region: o.Region, RequireRegion: o.RequireRegion, Bucket: o.Bucket, PathStyle: o.PathStyle,
		Credentials: o.Credentials, Tier: o.Tier, KeyText: o.KeyText, Renew: o.Renew, CABundle: o.CABundle, Client: o.Client, Dial: o.Dial,
		Parallel: o.Parallel, Stall: o.Stall, Logger: o.Logger,
	}
}

// complete checks the options and fills in what was left to us, but for how the bucket is reached.
func (o *Options) complete() (err error) {
	if o.Prefix, err = cleanPrefix(o.Prefix); err != nil {
		return err
	}
	if err := cmp.Or(o.completeBackup(), s3api.Encryption{Algorithm: o.Encryption, Key: o.KMSKey}.Check()); err != nil || o.StateDir != "" {
		return err
	}
	o.StateDir, err = mover.StateDir(os.Getenv)
	return err
}

// completeBackup refuses a backup that would be written over what it is of.
func (o *Options) completeBackup() (err error) {
	if o.Backup == "" {
		return nil
	}
	if o.Backup, err = cleanPrefix(o.Backup); err != nil {
		return err
	}
	if strings.HasPrefix(o.Prefix, o.Backup) {
		return fmt.Errorf("the target s3://%s/%s lies in the backup prefix %q: %w", o.Bucket, o.Prefix, o.Backup, mover.ErrUsage)
	}
	return nil
}

// cleanPrefix returns a prefix as keys begin with it: "" or with one '/' at its end.
func cleanPrefix(prefix string) (string, error) {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	if !mover.ValidName(prefix) || hasBad(prefix) {
		return "", fmt.Errorf("prefix %q: %w", prefix, mover.ErrUsage)
	}
	return prefix + "/", nil
}
