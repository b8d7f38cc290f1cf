package burstbuffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/tiering/slurm/directive"
)

// Record is a job as the controller's host remembers it.
type Record struct {
	Version int           `json:"version"`
	Job     uint32        `json:"job"`
	UID     uint32        `json:"uid"`
	GID     uint32        `json:"gid"`
	User    string        `json:"user,omitempty"`
	Array   string        `json:"array,omitempty"` // id of the array; "" is none
	Asked   directive.Job `json:"asked"`
	Began   time.Time     `json:"began"`           // this run of it
	Hurry   bool          `json:"hurry,omitempty"` // of one that has ended: nothing is to leave any more
}

// Place is where a job runs, as a hook that runs beside its phases is told.
type Place struct {
	Nodes []string `json:"nodes"`
	Name  string   `json:"name,omitempty"`  // of the job
	Array string   `json:"array,omitempty"` // id of the array; "" is none
	Task  string   `json:"task,omitempty"`  // of the array
	Count int      `json:"count,omitempty"` // of runs before
	Part  bool     `json:"part,omitempty"`  // the job is a component of a heterogeneous one
}

// End is how a job has ended.
type End struct {
	Status int `json:"status"`          // 0 is well
	Count  int `json:"count,omitempty"` // of runs before the next one: more than at its Place where Slurm begins the job again
}

// The files of a job. Each has one writer.
const (
	fileJob     = "job"     // Record
	filePlace   = "place"   // Place
	fileReady   = "ready"   // the run that had its nodes made ready, so it may have begun there
	fileTurn    = "turn"    // the data_in or pre_run that is at work
	fileEnd     = "end"     // End
	fileStaged  = "staged"  // Staged
	fileLeaves  = "leaves"  // it has ended, and what leaves its nodes is about to be asked for
	fileHeld    = "held"    // why the job is to be held when it is staged anew: it outlives its run
	fileAccount = "account" // of what Slurm's comment of the job tells: in, out
	fileWaits   = "waits"   // what its phase waits for that is no task of the job: waiting
	fileTold    = "told"    // ids of tasks of earlier jobs that have failed, and for which the job was held: it outlives its run
	fileEnded   = "ended-"  // Record of a run that is over, of which something is to be undone still; the run follows
)

// beside are those that mean nothing without the record of the job.
var beside = []string{filePlace, fileReady, fileTurn, fileEnd, fileStaged, fileLeaves, fileAccount, fileWaits}

// Staged is what was brought to where all nodes see it.
type Staged struct {
	Versions map[string]string `json:"versions"`        // digests of datasets that are asked for without one: those that there were at first
	Paths    map[string]string `json:"paths,omitempty"` // of datasets that all nodes see, by the names that they have in the job's directory
}

const (
	version  = 1
	fileMost = 4 << 20 // bytes
)

// records are files in a directory of the account that runs the hooks.
type records struct {
	dir  string
	step func() // before a change of a file; nil does nothing
}

// changes is called before a file is changed.
func (r records) changes() {
	if r.step != nil {
		r.step()
	}
}

func (r records) file(job uint32, what string) string {
	return filepath.Join(r.dir, strconv.FormatUint(uint64(job), 10)+"."+what)
}

// save writes the record of a job that begins, and forgets what an earlier run of it had.
func (r records) save(x Record) error {
	x.Version = version
	return errors.Join(r.dropBeside(x.Job), r.write(x.Job, fileJob, x))
}

// end makes of the record of a job that goes on one of a run that is over. Of a run that never came to its nodes there is nothing to leave. A
// hurry that an earlier, killed teardown has written stays.
func (r records) end(x Record, hurry bool) error {
	was, err := r.load(x.Job, x.ended())
	x.Hurry = hurry || !r.begun(x) || err == nil && was.Hurry
	if err := r.write(x.Job, x.ended(), x); err != nil {
		return err
	}
	return r.forget(x.Job)
}

// hurry notes of a run that is over that nothing is to leave any more. A note that is there is not replaced: a process that undoes what it says has its claim on that file,
// and the next run's In would wait for none.
func (r records) hurry(x Record) error {
	what := x.ended()
	switch was, err := r.load(x.Job, what); {
	case err == nil && was.Hurry:
		return nil
	case !errors.Is(err, mover.ErrNotExist):
		what += "-hurry"
	}
	x.Hurry = true
	return r.write(x.Job, what, x)
}

func (x Record) ended() string { return fileEnded + x.RunID() }

// begun says whether a run may have begun on its nodes, as far as is known.
func (r records) begun(x Record) bool {
	var run string
	err := r.read(x.Job, fileReady, &run)
	return err == nil && run == x.RunID() || err != nil && !errors.Is(err, mover.ErrNotExist)
}

// locked does something while no other process begins or ends a run: one may be given up beside the next one's Setup.
func (r records) locked(do func() error) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	dir, err := os.Open(r.dir)
	if err != nil {
		return err
	}
	defer dir.Close() // which lets go of it
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", r.dir, err)
	}
	return do()
}

// load reads the record of a job, or that of one that has ended; mover.ErrNotExist is none.
func (r records) load(job uint32, what string) (x Record, err error) {
	if err := r.read(job, what, &x); err != nil {
		return x, err
	}
	if x.Version != version || x.Job != job || x.UID == 0 {
		return x, fmt.Errorf("%w: %s is no record of job %d in version %d", mover.ErrCorrupt, r.file(job, what), job, version)
	}
	return x, nil
}

// forget removes everything of a job, first that there is one: what stays when we are killed in between means nothing without it.
func (r records) forget(job uint32) error {
	return errors.Join(r.drop(job, fileJob), r.dropBeside(job))
}

// dropBeside removes what is beside the record of a job.
func (r records) dropBeside(job uint32) (err error) {
	for _, what := range beside {
		err = errors.Join(err, r.drop(job, what))
	}
	return err
}

// file is one of a job.
type file struct {
	job  uint32
	what string
}

// claim waits until no other process is at work on what a file says.
func (r records) claim(ctx context.Context, f file) (letGo func(), err error) {
	of, err := os.OpenFile(r.file(f.job, f.what), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	for {
		switch err := syscall.Flock(int(of.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { _ = of.Close() }, nil
		case err != syscall.EWOULDBLOCK && err != syscall.EINTR:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", of.Name(), err), of.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%w: %s: another hook still undoes it", mover.ErrTimeout, of.Name()), of.Close())
		case <-time.After(placePause):
		}
	}
}

// all are the files of jobs with a kind that begins so.
func (r records) all(what string) (all []file, err error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		number, kind, _ := strings.Cut(e.Name(), ".")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && strings.HasPrefix(kind, what) {
			all = append(all, file{uint32(n), kind})
		}
	}
	return all, err
}

// tidy removes what a process has left that was killed while it wrote or forgot, and what was told of a job after its end. After an hour no process is at work on it.
func (r records) tidy(now time.Time) error {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && now.Sub(info.ModTime()) > time.Hour && r.stray(e.Name()) {
			_ = os.Remove(filepath.Join(r.dir, e.Name())) // else the next time
		}
	}
	return err
}

// stray says whether a file means nothing: it is not whole, or beside no record.
func (r records) stray(name string) bool {
	number, what, _ := strings.Cut(name, ".")
	if slices.Contains(beside, what) || what == fileHeld || what == fileTold {
		_, err := os.Lstat(filepath.Join(r.dir, number+"."+fileJob))
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.HasPrefix(name, newPrefix)
}

func (r records) drop(job uint32, what string) error {
	r.changes()
	if err := os.Remove(r.file(job, what)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r records) read(job uint32, what string, into any) error {
	name := r.file(job, what)
	text, err := readOurs(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: nothing is known of job %d", mover.ErrNotExist, name, job)
	}
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %s: %w", mover.ErrCorrupt, name, err)
	}
	return nil
}

// readOurs reads a file that only we can have written: a record names the user that things are done for.
func readOurs(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a pipe would be waited for
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a link, and not what we have written", mover.ErrRefused, name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || !info.Mode().IsRegular() || st.Uid != uint32(os.Geteuid()) || info.Mode()&0o022 != 0:
		return nil, fmt.Errorf("%w: %s is not what we have written: it is no file, another account owns it, or others may write to it", mover.ErrRefused, name)
	case info.Size() > fileMost:
		return nil, fmt.Errorf("%w: %s has %d bytes", mover.ErrCorrupt, name, info.Size())
	}
	return io.ReadAll(io.LimitReader(f, fileMost))
}

const newPrefix = ".new-" // of files that are not whole

// write replaces a file, and returns when it is on stable storage: a controller that starts again goes on from it.
func (r records) write(job uint32, what string, x any) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	r.changes()
	f, err := atomicfile.Create(r.file(job, what), atomicfile.Options{Draft: newPrefix + "*"})
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	r.changes()
	return f.Publish()
}
