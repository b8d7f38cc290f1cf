package burst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/tiering/burst"
)

// Versions before the service alone had bursts kept a record of each below the state directory: ID.json, and NAME.lock while a process worked on it.
const (
	recordEnding  = ".json"
	adoptedEnding = ".adopted" // behind the name of a record that a service has taken over
	recordMost    = 16 << 20   // bytes of a record
)

// fileRecord is a burst that was begun without a service, and its file.
type fileRecord struct {
	file string
	listed
}

// readRecord reads the record of a burst that was begun without a service.
func readRecord(file string) (r fileRecord, err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return r, &mover.Error{Op: "read", Location: file, Err: errors.Unwrap(err)}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, recordMost+1))
	if err != nil {
		return r, err
	}
	record := &burst.Record{}
	if err := json.Unmarshal(text, record); err != nil || len(text) > recordMost || record.ID == "" || !record.State.Known() {
		return r, &mover.Error{Op: "read", Location: file, Err: fmt.Errorf("%w: it is no record of a burst", mover.ErrCorrupt)}
	}
	r.file = file
	r.listed, err = listedOf(record)
	return r, err
}

// free is mover.ErrHeld while a process works on the burst.
func (r *fileRecord) free() (err error) {
	f, err := os.Open(filepath.Join(filepath.Dir(r.file), string(r.burst.Metadata.Name)+".lock"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &all); err != nil {
		return err
	}
	if all.Type != unix.F_UNLCK {
		var holder [32]byte
		n, _ := f.ReadAt(holder[:], 0)
		return &mover.Error{Op: "adopt", Location: "burst " + string(r.burst.Metadata.Name), Err: fmt.Errorf("%w: process %s of an earlier version works on it: end that first", mover.ErrHeld, mover.Printable(strings.TrimSpace(string(holder[:n]))))}
	}
	return nil
}

// what says what of a burst may be in AWS.
func (r *fileRecord) what() string {
	in := "no file system"
	switch fs := r.FileSystem; {
	case fs == nil, fs.Gone:
	case fs.ID == "":
		in = "a file system that was asked for"
	default:
		in = "file system " + mover.Printable(fs.ID)
	}
	return fmt.Sprintf("burst %s of team %s (%s, %s; %s and s3 below %s, in %s)", r.burst.Metadata.Name, r.burst.Spec.Team, r.ID, r.State, in, r.burst.Location(""), r.burst.Spec.Cloud.Region)
}

// noteUnadopted warns of each burst that was begun without a service and that none has taken over: what is in AWS of it costs money.
func (u *bursts) noteUnadopted() {
	state, err := u.StateDir()
	if err != nil {
		return // nothing was kept there
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(state), "burst", "*"+recordEnding))
	if err != nil {
		return
	}
	for _, file := range files {
		r, err := readRecord(file)
		switch {
		case err != nil:
			fmt.Fprintf(u.Err, "warning: %s\n", cli.Shown(fmt.Sprintf("%v: a burst that was begun without a service may be in AWS, and cost: look there for the tag %s=%s", err, burst.TagBurst, strings.TrimSuffix(filepath.Base(file), recordEnding))))
		case !r.State.Ended():
			fmt.Fprintf(u.Err, "warning: %s\n", cli.Shown(fmt.Sprintf("%s was begun without a service, and costs money: datamove burst adopt %s has the service take it over", r.what(), mover.Printable(file))))
		}
	}
}

// escapeGlob is a path as filepath.Glob takes it for itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func adoptCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "adopt [flags] FILE",
		Short: "Have the service take over a burst that an earlier version began without one",
		Long: `Adopt reads the record of a burst, which an earlier version of this program kept on this host,
and has the service begin one of its own: it looks in AWS for the file system with the tag
` + burst.TagBurst + ` of that record, and for the mark of the burst in its bucket. Nothing is made, nothing
goes, and nothing is taken to be home: burst sync-back brings it, and burst down ends it.
Money is reserved anew; what the burst has cost before is in the account of its team when that
is held to what AWS says (burst cost --reconcile). The record is renamed to FILE` + adoptedEnding + ` then.

The tier that the burst names has to be one of the service. A burst of which AWS has nothing
ends with 3: its record can be removed.`,
		Example: `  datamove burst adopt ~/.local/state/datamove/burst/0123456789abcdef.json
  datamove burst down llama-ft`,
		Args: cli.Exactly(1, "one FILE, the record of a burst"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error { return u.adopt(ctx, args[0], f) })
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	return cmd
}

func (u *bursts) adopt(ctx context.Context, file string, f cli.Format) error {
	r, err := readRecord(file)
	if err != nil {
		return err
	}
	if r.State.Ended() {
		return cli.Advise(mover.Misusef("%s is %s: AWS has nothing of it", mover.Printable(file), r.State), "datamove burst list --all")
	}
	if err := r.free(); err != nil {
		return err
	}
	return u.AskService(ctx, listBursts, func(c *api.Client) error {
		err := u.begin(ctx, c, "burst adopt", f, r.burst, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_ADOPT, Declaration: r.burst.Text, Adopt: r.ID})
		if err != nil {
			return err
		}
		if err := os.Rename(file, file+adoptedEnding); err != nil {
			return fmt.Errorf("the service has burst %s; its record is still %s: %w", r.burst.Metadata.Name, mover.Printable(file), err)
		}
		return atomicfile.SyncDir(filepath.Dir(file))
	})
}
