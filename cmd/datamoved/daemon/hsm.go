package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/uapi"
	"datamove.dev/mover"
	"datamove.dev/mover/archive"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/telemetry"
)

// hsm serves one archive of a Lustre.
type hsm struct {
	config.HSM
	tiers   map[string]config.Tier
	node    string
	dir     string // of its state
	log     *slog.Logger
	metrics *telemetry.Metrics
	pay     payer

	retry    retry.Options // of calls to the archive
	progress time.Duration // between two words about a long action; 0 is the copytool's own
	grace    time.Duration // for what is in work at the end; 0 is the copytool's own
	ioctl    func(fd int, request uint, arg []byte) (int, error)
}

// payer waits for the limits of an endpoint. *agent.Agent has one.
type payer func(ctx context.Context, endpoint string, write bool, bytes, ops int64) error

// hsmPause is between two tries to serve, when the mount or the archive is not there.
const hsmPause = 15 * time.Second

// hsmParts serve the archives of the configuration. What stands in the way of one is told
// and tried again: the node goes on without it.
func (h *host) hsmParts(pay payer) (parts []*part) {
	conf := h.live.config.Load()
	for _, c := range conf.HSM {
		log := h.log.With("mount", c.Mount, "archive", c.Archive, "to", c.To)
		id := shortID(h.at.node, c.Mount, fmt.Sprint(c.Archive), c.To)
		s := &hsm{HSM: c, tiers: conf.Tiers, node: h.at.node, dir: filepath.Join(h.at.data, "hsm", id), log: log, metrics: h.metrics, pay: pay, retry: retry.Options{Logger: log}}
		parts = append(parts, until("copytool of "+c.Mount, s.run))
	}
	return parts
}

// shortID names something for as long as its words are the same.
func shortID(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// twice finds a mount with two copytools.
func twice(archives []config.HSM) error {
	seen := map[string]bool{}
	for _, c := range archives {
		mount := filepath.Clean(c.Mount)
		if seen[mount] {
			return mover.Misusef("%s stands twice under hsm: a mount of Lustre has one copytool, for one archive; mount the file system once more for the other", mount)
		}
		seen[mount] = true
	}
	return nil
}

// run serves until ctx ends.
func (s *hsm) run(ctx context.Context) error {
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			if err != nil {
				s.log.Warn("HSM ended", "err", err)
			}
			return nil
		}
		s.log.Error("HSM is not served, will try again", "wait", hsmPause, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(hsmPause):
		}
	}
}

// serve serves once.
func (s *hsm) serve(ctx context.Context) error {
	place, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer place.Close()
	fileSystem, err := s.fileSystem()
	if err != nil {
		return err
	}
	v, err := archive.Open(ctx, retry.New(place, s.retry), archive.Options{
		By: s.owner(), For: fileSystem, StateDir: filepath.Join(s.dir, "vault"), Pay: s.pays, Logger: s.log,
	})
	if err != nil {
		return err
	}
	tool := copytool.New(copytool.Options{
		Mount: s.Mount, Archives: []uint32{s.Archive}, Archive: archiveStore{v}, Mark: filepath.Join(s.dir, "registered"), Jobs: cmp.Or(s.Jobs, config.DefaultHSMJobs),
		Progress: s.progress, Grace: s.grace, Logger: s.log, Told: s.told, Ioctl: s.ioctl,
	})
	defer s.metrics.Sample(func(sample *telemetry.Sample) { sample.HSM(tool.Counts()) })()
	return tool.Run(ctx)
}

// fileSystem names the file system by when it was made: names of file systems and FIDs are the
// same on many sites.
func (s *hsm) fileSystem() (string, error) {
	made, err := copytool.Made(s.Mount, s.ioctl)
	if err != nil || made.IsZero() {
		return "", err
	}
	return "the file system made at " + made.Format(time.RFC3339Nano), nil
}

func (s *hsm) owner() mover.WriterID {
	return mover.WriterID{Task: shortID(s.node, s.Mount, fmt.Sprint(s.Archive), s.To), Epoch: uint64(time.Now().UnixMilli())}
}

// pays waits for the limits of the tier of the copies.
func (s *hsm) pays(ctx context.Context, write bool, bytes, ops int64) error {
	tier, _, _ := strings.Cut(s.To, ":")
	return s.pay(ctx, tier, write, bytes, ops)
}

// open opens the backend of the copies.
func (s *hsm) open(ctx context.Context) (mover.Backend, error) {
	text := s.To
	if !strings.Contains(text, ":") {
		text += ":"
	}
	l, err := location.Parse(text)
	if err != nil {
		return nil, err
	}
	tiers := backend.Resolver{Tiers: s.tiers}
	at, ok := tiers.Resolve(l)
	if !ok {
		return nil, fmt.Errorf("%w: there is no tier %q", mover.ErrNotExist, l.Tier)
	}
	return tiers.Open(ctx, at, engine.OpenOptions{Write: true, StateDir: s.dir, Logger: s.log})
}

var hsmActions = map[uapi.CopyAction]telemetry.HSMAction{
	uapi.CopyArchive: telemetry.HSMArchive, uapi.CopyRestore: telemetry.HSMRestore, uapi.CopyRemove: telemetry.HSMRemove,
}

func (s *hsm) told(e copytool.Ended) { s.metrics.HSMEnded(hsmActions[e.Action], e.Bytes, e.Err) }

// archiveStore is an archive as a copytool asks for it.
type archiveStore struct{ *archive.Archive }

func (s archiveStore) Put(ctx context.Context, c copytool.Copy) error {
	i := &c.Info
	return copytool.OfKind(s.Archive.Put(ctx, archive.Item{Key: c.Key, File: c.File, Size: c.Size, Origin: i.Path, Moved: c.Moved, Mine: c.Mine, Facts: mover.Entry{
		Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime,
		Mode:  i.Mode, UID: i.UID, GID: i.GID, Mtime: timeOf(i.Mtime), Atime: timeOf(i.Atime),
	}}))
}

func timeOf(t unix.Timespec) mover.Time { return mover.Time{Sec: t.Sec, Nsec: int32(t.Nsec)} }

func (s archiveStore) Get(ctx context.Context, c copytool.Copy) error {
	return copytool.OfKind(s.Archive.Get(ctx, archive.Item{Key: c.Key, File: c.File, Size: c.Size, Moved: c.Moved}))
}

func (s archiveStore) Delete(ctx context.Context, key string) error {
	return copytool.OfKind(s.Archive.Delete(ctx, key))
}
