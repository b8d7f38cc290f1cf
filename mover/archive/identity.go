package archive

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// IdentityKey is the key under which a vault has its identity: 32 hexadecimal digits. A note in
// [Options.StateDir] remembers it, and [Open] refuses a backend without it. A folder
// on a file system that is not mounted looks like a vault with nothing in it. The next mount
// would hide what is written there.
const IdentityKey = "vault.id"

// ForKey is the key under which a vault names the file system that its copies are of, see [Options.For]: a
// digest of 32 hexadecimal digits.
const ForKey = "vault.for"

const identitySize = 32

// identify compares the identity of the place with the one that is remembered.
func (v *Archive) identify(ctx context.Context) error {
	file := filepath.Join(v.o.StateDir, IdentityKey)
	known, err := os.ReadFile(file)
	switch {
	case err == nil && len(known) != identitySize:
		return fmt.Errorf("%w: which archive was here before is not known any more: %s has %d bytes instead of %d; if %s is the right one, remove it", mover.ErrConflict, file, len(known), identitySize, v.place)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	there, err := v.read(ctx, IdentityKey)
	switch {
	case err == nil && len(known) == 0:
		return remember(file, there)
	case err == nil && there == string(known):
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s is another archive than the one that was here before; if that is right, remove %s", mover.ErrConflict, v.place, file)
	case !errors.Is(err, mover.ErrNotExist):
		return err
	case len(known) > 0:
		return fmt.Errorf("%w: %s is not the archive that was here before: is it mounted? If it is lost, remove %s", mover.ErrNotExist, v.place, file)
	}
	var id [identitySize / 2]byte
	_, _ = rand.Read(id[:]) // it never fails
	if err := v.write(ctx, IdentityKey, hex.EncodeToString(id[:])); err != nil {
		return err
	}
	if there, err = v.read(ctx, IdentityKey); err != nil {
		return err
	}
	return remember(file, there)
}

// bind compares the file system that the copies there are of with ours. Keys of two file systems
// can be the same: then one would get the content of the other.
func (v *Archive) bind(ctx context.Context) error {
	if v.o.For == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(v.o.For))
	ours := hex.EncodeToString(sum[:identitySize/2])
	theirs, err := v.read(ctx, ForKey)
	if errors.Is(err, mover.ErrNotExist) {
		if err = v.write(ctx, ForKey, ours); err == nil {
			theirs, err = v.read(ctx, ForKey)
		}
	}
	if err == nil && theirs != ours {
		err = fmt.Errorf("%w: %s holds the copies of another one, and not of %s: give each a path of its own; if it is the same one all the same, remove %s there", mover.ErrConflict, v.place, v.o.For, ForKey)
	}
	return err
}

// scratch is a file without a name.
func (v *Archive) scratch() (*os.File, error) {
	f, err := os.CreateTemp(v.o.StateDir, ".identity-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// read reads what a vault says of itself.
func (v *Archive) read(ctx context.Context, key string) (string, error) {
	f, err := v.scratch()
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := v.Get(ctx, Item{Key: key, File: f, Size: identitySize}); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, identitySize))
	return string(b), err
}

func (v *Archive) write(ctx context.Context, key, text string) error {
	f, err := v.scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return v.Put(ctx, Item{Key: key, File: f, Size: identitySize})
}

// remember writes an identity down, whole and for good: were it lost with the power, a folder
// below a mount that is missing would be taken for a new vault.
func remember(file, identity string) error {
	return atomicfile.Write(file, []byte(identity), atomicfile.Options{Draft: filepath.Base(file) + ".new"})
}
