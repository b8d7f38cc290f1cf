package compare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// store is a S3 server over a folder: versitygw, a process of its own, so that
// what it costs is not counted.
type store struct {
	endpoint string
	root     string // the folder; its folders are the buckets
	cmd      *exec.Cmd
}

const (
	bucket    = "bench"
	wiped     = "warp" // the bucket of warp, which empties it before and after each run
	accessKey = "benchaccess"
	secretKey = "benchsecret"
)

// environment is what an S3 client reads.
func (s *store) environment() []string {
	return []string{"AWS_ENDPOINT_URL_S3=" + s.endpoint, "AWS_ACCESS_KEY_ID=" + accessKey,
		"AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_REGION=us-east-1"}
}

// host is the endpoint without its scheme, for tools that want it so.
func (s *store) host() string { return strings.TrimPrefix(s.endpoint, "http://") }

// openStore starts the server over an empty folder below dir, on a free port of
// the loopback. The folder needs user extended attributes. Connections are kept, as
// with other stores: without --keep-alive this one closes them after each answer, and
// half of what is measured is connecting.
func openStore(ctx context.Context, dir string) (*store, error) {
	program, err := exec.LookPath("versitygw")
	if err != nil {
		return nil, fmt.Errorf("versitygw is not in PATH: %w", err)
	}
	root := filepath.Join(dir, "store")
	for _, b := range []string{bucket, wiped} {
		if err := os.MkdirAll(filepath.Join(root, b), 0o755); err != nil {
			return nil, err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &store{endpoint: "http://" + address, root: root}
	s.cmd = exec.CommandContext(ctx, program, "--quiet", "--keep-alive", "--port", address, "--access", accessKey, "--secret", secretKey, "posix", root)
	s.cmd.Env = cleanEnv()
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := answers(ctx, address); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// answers waits until a server listens at address.
func answers(ctx context.Context, address string) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("versitygw does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func (s *store) close() error {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // says that it was killed
	return nil
}

// stageStore makes data in memory and a server on the disk, which has the
// attributes that it needs.
func stageStore(ctx context.Context, h *house, data dataset) (*workload, *store, error) {
	dir, err := os.MkdirTemp(h.disk, "s3-")
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	w, err := stageCopy(h.tmpfs, "", data)
	if err != nil {
		return nil, nil, errors.Join(err, s.close(), os.RemoveAll(dir))
	}
	inMemory := w.close
	w.close = func() error { return errors.Join(s.close(), inMemory(), os.RemoveAll(dir)) }
	return w, s, nil
}

// uploading stages copies to new prefixes of a bucket.
func uploading(data func(*house) dataset) func(context.Context, *house) (*workload, error) {
	return func(ctx context.Context, h *house) (*workload, error) {
		w, s, err := stageStore(ctx, h, data(h))
		if err != nil {
			return nil, err
		}
		local := w.job
		w.job = func(run string) job {
			j := local(run)
			j.target, j.store = "s3://"+bucket+"/"+run, s
			j.folder = filepath.Join(s.root, bucket, run)
			return j
		}
		w.check = func(j job) error { return w.data.checkObjects(j.folder) }
		w.place, w.disk = s.root, true
		return w, nil
	}
}

// checkObjects is check for what a store keeps in a folder, and for what comes from
// it: datamove's manifest is an object like any other there.
func (d dataset) checkObjects(root string) error {
	files, bytes, err := count(root)
	if err != nil {
		return err
	}
	if files < d.files || bytes < d.total() {
		return fmt.Errorf("the target has %d objects of %d bytes, the source %d of %d", files, bytes, d.files, d.total())
	}
	return nil
}

// downloading stages copies of one prefix, which datamove has put there, to memory.
func downloading(data func(*house) dataset) func(context.Context, *house) (*workload, error) {
	return func(ctx context.Context, h *house) (*workload, error) {
		w, s, err := stageStore(ctx, h, data(h))
		if err != nil {
			return nil, err
		}
		local, from := w.job, "s3://"+bucket+"/source"
		up := local("unused")
		up.target, up.store = from, s
		if _, err := spend(ctx, datamove(h.datamove, up), ""); err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.job = func(run string) job {
			j := local(run)
			j.source, j.store = from, s
			return j
		}
		w.check = func(j job) error { return w.data.checkObjects(j.folder) }
		return w, nil
	}
}
