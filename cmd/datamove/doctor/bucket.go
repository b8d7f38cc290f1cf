package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/units"
)

// Opener opens the bucket. What is remembered of it is kept in stateDir, so that
// an empty one makes it look afresh.
type Opener func(ctx context.Context, stateDir string) (mover.Backend, error)

// Bucket looks at a bucket through the place that copies use: whether it opens,
// lists, takes, gives back and removes an object, how fast, and what its server
// really checks.
func Bucket(ctx context.Context, subject string, open Opener) []Finding {
	place, done, err := afresh(ctx, open)
	if err != nil {
		return []Finding{refused(subject, "open", err)}
	}
	defer done()
	found := []Finding{pass(subject, "open", "opens; the server is "+serverName(place))}
	for e, err := range place.Walk(ctx, mover.WalkOptions{}) {
		if err != nil && e.Kind == 0 {
			return append(found, refused(subject, "list", err))
		}
		break
	}
	found = append(found, pass(subject, "list", "its objects can be listed"))
	found = append(found, tryObject(ctx, subject, place)...)
	if Failed(found) {
		return found
	}
	if p, ok := mover.As[encrypting](place); ok {
		if algorithm, key := p.Encryption(); algorithm != "" {
			found = append(found, pass(subject, "encryption at rest", atRest(algorithm, key)))
		}
	}
	return append(append(found, checksums(subject, place)), locked(ctx, subject, place, open)...)
}

// encrypting is a place that was asked to have what is written encrypted. *s3.Place is one.
type encrypting interface {
	Encryption() (algorithm, key string)
}

func atRest(algorithm, key string) string {
	text := "the store says that it encrypts by " + mover.Printable(algorithm)
	if key != "" {
		text += " with key " + mover.Printable(key)
	}
	return text
}

// afresh opens the bucket with a state directory that done removes.
func afresh(ctx context.Context, open Opener) (place mover.Backend, done func(), err error) {
	dir, err := os.MkdirTemp("", "datamove-doctor-")
	if err != nil {
		return nil, nil, err
	}
	place, err = open(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return place, func() {
		_ = place.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func serverName(place mover.Backend) string {
	if name := place.Capabilities().System; name != "" {
		return mover.Printable(name)
	}
	return "not known"
}

// refused says why a call did not work, by the kind of the error.
func refused(subject, check string, err error) Finding {
	mend := "look at the log of the server"
	switch {
	case errors.Is(err, mover.ErrRefused):
		mend = "mend encryption, kms_key or require_region of the tier, or take a bucket that is as they say"
	case errors.Is(err, mover.ErrPermission):
		mend = "check the credentials, and that they may list, read, write and delete in this bucket and prefix"
	case errors.Is(err, mover.ErrNotExist):
		mend = "make the bucket, or mend its name in bucket: of the tier"
	case errors.Is(err, mover.ErrUnreachable), errors.Is(err, mover.ErrTimeout):
		mend = "check that the server runs, its port, and the firewalls between"
	case errors.Is(err, mover.ErrFull):
		mend = "make room on the server, or raise the quota of the bucket"
	case errors.Is(err, mover.ErrTransient):
		mend = "the server is busy or ill: try again, and look at its log"
	case errors.Is(err, mover.ErrUsage):
		mend = "mend the tier in the configuration, or the AWS environment"
	case errors.Is(err, mover.ErrCorrupt):
		mend = "do not use this server or this way to it before it is known what changes the bytes"
	}
	return fail(subject, check, err.Error(), mend)
}

// objectBytes is the size of the object that is put and got: large enough for a
// rate, small enough to wait for.
const objectBytes = 4 << 20

// tryObject puts an object, reads it back, compares, and removes it.
func tryObject(ctx context.Context, subject string, place mover.Backend) []Finding {
	content := make([]byte, objectBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails; no server can shrink it
	begun := time.Now()
	if err := store(ctx, place, content); err != nil {
		return []Finding{refused(subject, "write", err)}
	}
	put := time.Since(begun)
	found := []Finding{pass(subject, "write", units.Rate(objectBytes, put)+", one object of "+units.Bytes(objectBytes))}
	begun = time.Now()
	e, err := fetch(ctx, place, content)
	if err != nil {
		found = append(found, refused(subject, "read", err))
	} else {
		found = append(found, pass(subject, "read", units.Rate(objectBytes, time.Since(begun))+", every byte as it was written"))
	}
	if err := place.Remove(ctx, e, owner()); err != nil {
		return append(found, refused(subject, "delete", err))
	}
	return append(found, pass(subject, "delete", "objects can be removed"))
}

func owner() mover.WriterID { return mover.WriterID{Task: "doctor", Epoch: uint64(os.Getpid())} }

// store publishes content under a temporary name.
func store(ctx context.Context, place mover.Backend, content []byte) error {
	e := mover.Entry{Name: probeName(3), Kind: mover.File, Size: int64(len(content)), CRC: checksum.Update(0, content), Known: mover.FactCRC}
	draft, err := place.Draft(ctx, e, mover.Hints{By: owner()})
	if err != nil {
		return err
	}
	defer draft.Close()
	receipt, err := draft.WritePart(ctx, mover.Part{Length: e.Size}, &feed{content: content})
	if err != nil {
		return err
	}
	if err := draft.Finish(ctx, e, []mover.Receipt{receipt}); err != nil {
		return err
	}
	return place.Publish(ctx, []mover.Draft{draft})[0].Err
}

// fetch reads what store wrote. Its entry is what there is to remove.
func fetch(ctx context.Context, place mover.Backend, want []byte) (mover.Entry, error) {
	e, err := place.Stat(ctx, probeName(3))
	if err != nil {
		return mover.Entry{Name: probeName(3), Kind: mover.File}, err
	}
	c, err := place.Open(ctx, e)
	if err != nil {
		return e, err
	}
	defer c.Close()
	r, err := c.Range(ctx, 0, e.Size)
	if err != nil {
		return e, err
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, objectBytes+1))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%w: what was read is not what was written", mover.ErrCorrupt)
	}
	return e, err
}

// checksums tells whether the server compares them.
func checksums(subject string, place mover.Backend) Finding {
	if place.Capabilities().Level >= mover.Server {
		return pass(subject, "checksum", "the server refuses an object with a wrong CRC-64/NVME")
	}
	return warn(subject, "checksum", "the server takes an object with a wrong checksum",
		"nothing has to be done: what is written is read back and compared; a server that checks saves that")
}

// locked does what wants the lock of the place.
func locked(ctx context.Context, subject string, place mover.Backend, open Opener) []Finding {
	_, unlock, err := place.Lock(ctx, "", owner())
	if errors.Is(err, mover.ErrHeld) {
		return []Finding{pass(subject, "lock", "a run is working here: "+err.Error())}
	}
	if err != nil {
		return []Finding{refused(subject, "lock", err)}
	}
	defer func() { _ = unlock() }() // it expires by itself
	return []Finding{conditions(ctx, subject, open), uploads(ctx, subject, place)}
}

// conditions tells whether the lock that we have is one that two machines can not
// have at once. The second machine is we, with another state directory.
func conditions(ctx context.Context, subject string, open Opener) Finding {
	other, done, err := afresh(ctx, open)
	if err != nil {
		return refused(subject, "lock", err)
	}
	defer done()
	_, again, err := other.Lock(ctx, "", owner())
	if errors.Is(err, mover.ErrHeld) {
		return pass(subject, "lock", "two machines can not write here at once")
	}
	if err != nil {
		return refused(subject, "lock", err)
	}
	_ = again()
	return warn(subject, "lock", "the server ignores conditions: a lock here holds on one machine only",
		"do not write to this prefix from two machines at once; a server with conditional writes keeps them apart")
}

// uploads looks for multipart uploads that were begun and never finished. No listing
// shows them, and they are paid for.
func uploads(ctx context.Context, subject string, place mover.Backend) Finding {
	var mu sync.Mutex
	var n int64
	oldest := time.Now()
	opts := mover.WalkOptions{Stray: func(s mover.Stray) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(s.Since) > leftAfter {
			n++
		}
		if s.Since.Before(oldest) {
			oldest = s.Since
		}
	}}
	for e, err := range place.Walk(ctx, opts) { // it tells of them before the first entry
		if err != nil && e.Kind == 0 {
			return refused(subject, "uploads", err)
		}
		break
	}
	if n == 0 {
		return pass(subject, "uploads", "none is unfinished for over a day")
	}
	return warn(subject, "uploads", fmt.Sprintf("%s for over a day, the oldest since %s; listings do not show them, and they take room",
		units.Plural(n, "upload is unfinished", "uploads are unfinished"), oldest.UTC().Format(time.DateOnly)),
		"run the copy that was interrupted again: it goes on with its uploads or removes them; for others let the store remove them by a rule (AbortIncompleteMultipartUpload)")
}

// feed gives content as one part.
type feed struct {
	content []byte
	off     int
}

func (f *feed) Read(p []byte) (int, error) {
	if f.off == len(f.content) {
		return 0, io.EOF
	}
	n := copy(p, f.content[f.off:])
	f.off += n
	return n, nil
}

func (f *feed) Hole() int64 { return 0 }

func (f *feed) Sum() uint64 { return checksum.Update(0, f.content[:f.off]) }

func (f *feed) Rewind() error {
	f.off = 0
	return nil
}
