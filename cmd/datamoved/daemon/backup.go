package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/state"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Write what the service must not lose into one file",
		Long: `Backup writes the ledger as it is at one moment, the manifests of datasets, and the
authority that signed the certificates of agents. It works while the service runs,
and when it does not. The file appears whole; without FILE it has the name of the
node and the time. It holds a private key, with which agents can be admitted.

The audit log is not in it: it only grows, so copy its directory as it is.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.do(a.backup)
	return cmd
}

func (a *app) backup(ctx context.Context, args []string) error {
	conf, err := a.load()
	if err != nil {
		return err
	}
	at, err := a.home(conf)
	if err != nil {
		return err
	}
	file := "datamove-" + at.node + "-" + time.Now().UTC().Format("20060102T150405Z") + ".tar"
	if len(args) == 1 {
		file = args[0]
	}
	if _, err := os.Stat(filepath.Join(at.data, "ledger")); err != nil { // hold would make the directory
		return &mover.Error{Op: "back up", Location: at.data, Err: err}
	}
	ledger, done, err := ledgerOf(ctx, at, func() ([]string, error) { return a.addresses(conf) })
	if err != nil {
		return err
	}
	defer done()
	size, err := publish(file, func(draft *os.File) error { return pack(draft, at, ledger) })
	if err != nil {
		return &mover.Error{Op: "back up to", Location: file, Err: err}
	}
	_, err = fmt.Fprintf(a.out, "wrote %s, %d bytes\n", mover.Printable(file), size)
	return err
}

// source writes the ledger as it is at one moment.
type source func(w io.Writer) error

// ledgerOf finds the ledger: of the service that runs, or else on the disk.
func ledgerOf(ctx context.Context, at paths, addresses func() ([]string, error)) (source, func(), error) {
	lock, err := hold(at.data)
	if errors.Is(err, mover.ErrHeld) {
		listen, err := addresses()
		if err != nil {
			return nil, nil, err
		}
		return fromService(ctx, listen)
	}
	if err != nil {
		return nil, nil, err
	}
	books, err := openAlone(at.data)
	if err != nil {
		lock.release()
		return nil, nil, err
	}
	return books.Backup, func() {
		_ = books.Close() // nothing was changed
		lock.release()
	}, nil
}

// openAlone opens the ledger of a service that does not run, also on a full disk.
func openAlone(data string) (*state.Ledger, error) {
	ballast, err := state.OpenBallast(data, slog.New(slog.DiscardHandler)) // the service says it when it begins
	if err != nil {
		return nil, err
	}
	return state.Open(filepath.Join(data, "ledger"), state.Options{Ballast: ballast})
}

func fromService(ctx context.Context, listen []string) (source, func(), error) {
	i := slices.IndexFunc(listen, func(address string) bool { return strings.HasPrefix(address, "unix://") })
	if i < 0 {
		return nil, nil, &advised{mover.Misusef("the service runs, and has no unix socket on which it could be asked"), "--listen unix:///path, or datamove service backup"}
	}
	c, err := api.Dial(ctx, listen[i], api.Options{})
	if err != nil {
		return nil, nil, err
	}
	return func(w io.Writer) error {
		chunks, err := c.Backup(ctx, &datamovev1.BackupRequest{})
		for err == nil {
			var chunk *datamovev1.BackupChunk
			if chunk, err = chunks.Recv(); err == nil {
				_, err = w.Write(chunk.GetData())
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}, func() { _ = c.Close() }, nil
}

// publish makes a file that is there whole and on stable storage, or not at all. One
// that is there already stays.
func publish(file string, fill func(*os.File) error) (size int64, err error) {
	draft, err := atomicfile.Create(file, atomicfile.Options{Exclusive: true, Draft: ".backup-*"})
	if err != nil {
		return 0, err
	}
	defer draft.Close()
	if err := fill(draft.File); err != nil {
		return 0, err
	}
	info, err := draft.Stat()
	if err != nil {
		return 0, err
	}
	if err := draft.Publish(); err != nil {
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%w: there is a file of that name", mover.ErrConflict)
		}
		return 0, err
	}
	return info.Size(), nil
}
