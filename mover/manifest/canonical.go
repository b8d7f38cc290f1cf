package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"datamove.dev/mover"
)

// canonicalHeader begins the canonical text of a dataset. It is not that of a
// manifest, so that the digest of the one is never the digest of the other.
const canonicalHeader = `{"format":"datamove-dataset","version":1}` + "\n"

// Digest reads a manifest to its end and returns what identifies the dataset that
// it describes: the SHA-256, in hexadecimal, of its canonical text. It is what
// stands behind the '@' of dataset:name@digest. entries and bytes are what the
// canonical text counts.
//
// The canonical text is the line {"format":"datamove-dataset","version":1} and a
// line for each entry, in the order and the notation of the manifest, with the
// fields name, kind, size, mode, rdev, target and crc64nvme alone. It is the same on
// every tier and for every user that stages it. Times, owners, attributes, holes, and which
// names are hard links of one content do not count. Nor do the header, the mode of
// a symbolic link, and the root, which is where a replica is put and not what it is.
//
// A file without a checksum is refused, because its content would not be
// identified; so is a manifest that is not whole. Memory is that of a Reader.
func Digest(r io.Reader) (digest string, entries, bytes int64, err error) {
	return digestAs(r, func(*mover.Entry) (bool, error) { return true, nil })
}

// DigestAs is Digest of a replica of the dataset that the manifest of describes. What that does
// not say is no part of the dataset, so a replica may have it: modes and directories, when it was described in a store
// that has none, and the replica is on a file system that has to.
func DigestAs(r, of io.Reader) (digest string, entries, bytes int64, err error) {
	original, err := NewReader(of)
	if err != nil {
		return "", 0, 0, err
	}
	defer original.Close()
	var head mover.Entry
	end := false
	return digestAs(r, func(e *mover.Entry) (bool, error) {
		for !end && (head.Kind == 0 || mover.Compare(&head, e) < 0) {
			if head, err = original.Next(); err == io.EOF {
				end = true
			} else if err != nil {
				return false, err
			}
		}
		switch {
		case end || mover.Compare(&head, e) != 0:
			return e.Kind != mover.Dir, nil
		case !head.Known.Has(mover.FactMode):
			e.Known &^= mover.FactMode
		}
		return true, nil
	})
}

// digestAs is the digest of those entries of a manifest that counts tells to count, as it leaves them.
func digestAs(r io.Reader, counts func(*mover.Entry) (bool, error)) (digest string, entries, bytes int64, err error) {
	m, err := NewReader(r)
	if err != nil {
		return "", 0, 0, err
	}
	defer m.Close()
	sum := sha256.New()
	sum.Write([]byte(canonicalHeader))
	for line := []byte(nil); ; {
		e, err := m.Next()
		if err == io.EOF {
			return hex.EncodeToString(sum.Sum(nil)), entries, bytes, nil
		}
		if err != nil {
			return "", 0, 0, err
		}
		if e.Name == "" {
			continue
		}
		counted, err := counts(&e)
		if err != nil {
			return "", 0, 0, err
		}
		if !counted {
			continue
		}
		if line, err = appendContent(line[:0], &e); err != nil {
			return "", 0, 0, err
		}
		sum.Write(line)
		entries++
		bytes += e.Size
	}
}

// appendContent appends the canonical line of e: what it is, and not how it came
// to be here.
func appendContent(b []byte, e *mover.Entry) ([]byte, error) {
	if e.Kind == mover.File && !e.Known.Has(mover.FactCRC) {
		return b, &mover.Error{Op: "identify", Location: "the dataset", Name: e.Name,
			Err: fmt.Errorf("its manifest has no checksum of this file; describe the dataset again: %w", mover.ErrUsage)}
	}
	e.Known &= mover.FactMode | mover.FactCRC
	if e.Kind == mover.Symlink {
		e.Known = 0
	}
	return append(appendEntry(b, e, "", true), '\n'), nil
}
