package daemon

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// TestHSMStopped: what is in work when the service ends comes to its end within its grace,
// or is handed back; nothing half is left in the archive, and the next process takes it up.
// (What became visible as the grace ended is handed back too, and replaced: see TestHSMWritten.)
func TestHSMStopped(t *testing.T) {
	for _, b := range backends {
		for _, row := range []struct {
			name  string
			grace time.Duration
			errno unix.Errno
			files int
		}{{"done", time.Hour, 0, 1}, {"handed back", time.Millisecond, unix.EAGAIN, 0}} {
			t.Run(b.name+" "+row.name, func(t *testing.T) {
				tier, mount, state := b.tier(t), t.TempDir(), t.TempDir()
				begun, stopping := make(chan struct{}), make(chan struct{})
				a := serveHSM(t, tier, mount, state, func(a *archiving) {
					a.hsm.grace = row.grace
					var held atomic.Bool
					a.hsm.pay = func(ctx context.Context, _ string, write bool, bytes, _ int64) error {
						if !write || bytes < 1<<20 || !held.CompareAndSwap(false, true) { // not a part of the content, or not the first one
							return nil
						}
						close(begun)
						if row.errno == 0 {
							<-stopping
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					}
					a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
						if r, err := uapi.DecodeRegistration(arg); request == uapi.IocCopytool && err == nil && r.Stop {
							defer close(stopping)
						}
						return a.Ioctl(fd, request, arg)
					}
				})
				f := a.Write(1, noise(large))
				cookie := a.Do(uapi.CopyArchive, f)[0]
				<-begun
				a.stop()
				a.is(cookie, row.errno, row.errno != 0)
				if files, strays := a.files(); len(files) != row.files || strays > 0 {
					t.Errorf("%q are in the archive, and %d half written", files, strays)
				}
				next := serveHSM(t, tier, mount, state)
				f = next.Write(1, noise(large))
				next.is(next.Do(uapi.CopyArchive, f)[0], 0, false)
				next.Release(f)
				next.is(next.Do(uapi.CopyRestore, f)[0], 0, false)
				if files, strays := next.files(); len(files) != 1 || strays > 0 || !bytes.Equal(next.Read(f), noise(large)) {
					t.Errorf("%q are in the archive, and %d half written; or another content came back", files, strays)
				}
			})
		}
	}
}

// TestHSMKilled: a process that is killed in the middle leaves nothing half in the archive
// when the next one has begun, and that one does its action.
//
//safety:1 with mover/archive TestOldCopyStays
func TestHSMKilled(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			tier, mount, state := b.tier(t), t.TempDir(), t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHSMChild$")
			cmd.Env = append(os.Environ(), "DATAMOVED_HSM_CHILD="+strings.Join([]string{mount, state, tier.Path}, ";"))
			if tier.S3 != nil {
				cmd.Env = append(cmd.Env, "DATAMOVED_HSM_S3="+strings.Join([]string{tier.S3.Endpoint, tier.S3.Bucket, tier.S3.Prefix, tier.S3.Credentials}, ";"))
			}
			out := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != childHalf {
				t.Log(lines.Text())
			}
			must.Do(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed

			l := copytest.New(t, mount)
			before := &archiving{Lustre: l, t: t, hsm: hsmOf(l, tier, state)}
			if files, strays := before.files(); len(files) != 0 || strays == 0 {
				t.Fatalf("the child left %q and %d half written", files, strays)
			}
			var cookie uint64
			var f lustre.FID
			a := serveHSM(t, tier, mount, state, func(a *archiving) {
				f = a.Write(1, noise(large))
				a.Killed() // the MDT does not know that yet
				cookie = a.Running(uapi.CopyArchive, f)
			})
			a.is(cookie, 0, false)
			if files, strays := a.files(); len(files) != 1 || strays != 0 {
				t.Errorf("in the archive: %q, and %d half written", files, strays)
			}
			a.Release(f)
			a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
			if !bytes.Equal(a.Read(f), noise(large)) {
				t.Error("another content came back")
			}
		})
	}
}

const childHalf = "half way"

// TestHSMChild is the process that TestHSMKilled kills: it stops in the middle of an archive.
func TestHSMChild(t *testing.T) {
	words := strings.Split(os.Getenv("DATAMOVED_HSM_CHILD"), ";")
	if len(words) != 3 {
		return // TestHSMKilled starts it
	}
	tier := config.Tier{Path: words[2]}
	if s := strings.Split(os.Getenv("DATAMOVED_HSM_S3"), ";"); len(s) == 4 {
		tier.S3 = &config.S3{Endpoint: s[0], Bucket: s[1], Prefix: s[2], Credentials: s[3]}
	}
	a := &archiving{Lustre: copytest.New(t, words[0]), t: t}
	a.hsm = hsmOf(a.Lustre, tier, words[1])
	a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
		if p, err := uapi.DecodeProgress(arg); request == uapi.IocCopyProgress && err == nil && p.Extent.Length > 1<<20 {
			fmt.Println(childHalf)
			select {} // until we are killed
		}
		return a.Ioctl(fd, request, arg)
	}
	go func() { _ = a.hsm.run(t.Context()) }()
	a.Registered()
	a.Do(uapi.CopyArchive, a.Write(1, noise(large)))
	<-t.Context().Done()
}
