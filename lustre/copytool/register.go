package copytool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/uapi"
)

// registration is a pipe that the kernel writes actions into.
type registration struct {
	mount *mount
	mark  mark
	pipe  *os.File // the end to read from
	words uapi.Registration
	taken atomic.Bool // back by the kernel
}

// pipeBytes is how much may wait in the pipe: some thousand actions.
const pipeBytes = 1 << 20

// register hands the kernel one end of a pipe. That end blocks: the kernel would drop what
// does not fit. Ours does not, so that reading can be given up.
func (m *mount) register(o *Options) (*registration, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeBytes) // as large as we may
	err := unix.SetNonblock(fds[0], true)
	r := &registration{mount: m, mark: mark(o.Mark), words: uapi.Registration{
		ReadFD: uint32(fds[0]), WriteFD: uint32(fds[1]), PID: uint32(os.Getpid()), Archives: o.Archives,
	}}
	if err == nil {
		err = r.begin()
	}
	err = errors.Join(err, unix.Close(fds[1])) // the kernel has its own
	if err != nil {
		_ = unix.Close(fds[0])
		return nil, explain(m, err)
	}
	r.pipe = os.NewFile(uintptr(fds[0]), "actions")
	if err := r.mark.set(); err != nil {
		return nil, errors.Join(fmt.Errorf("remember the registration: %w", err), r.takeBack(), r.pipe.Close())
	}
	return r, nil
}

// begin registers, in the place of a process of ours that was killed.
func (r *registration) begin() error {
	_, err := r.mount.ask(nil, uapi.IocCopytool, r.words.Encode())
	if errors.Is(err, unix.EEXIST) && r.mark.left() {
		old := r.words
		old.Stop = true
		_, _ = r.mount.ask(nil, uapi.IocCopytool, old.Encode()) // whatever it says: it counts whether we are registered now
		_, err = r.mount.ask(nil, uapi.IocCopytool, r.words.Encode())
	}
	return err
}

// explain says what there is to do when the kernel does not register us.
func explain(m *mount, err error) error {
	why := ""
	switch {
	case errors.Is(err, unix.ENOTTY):
		why = ": it is no Lustre"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		why = ": it takes CAP_SYS_ADMIN"
	case errors.Is(err, unix.EEXIST):
		why = ": another copytool is registered there, and a mount has one; stop it, or mount the file system once more"
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EAGAIN):
		why = ": the coordinator does not run; start it on the MDS: lctl set_param mdt.*.hsm_control=enabled"
	}
	return fmt.Errorf("register a copytool at %s%s: %w", m.root.Name(), why, err)
}

// lastWords is how long the kernel has to let go of the pipe when that is empty.
const lastWords = 2 * time.Second

// takeBack has the kernel hand out nothing more. What is in the pipe can be read still.
func (r *registration) takeBack() error {
	r.words.Stop = true
	_, err := r.mount.ask(nil, uapi.IocCopytool, r.words.Encode())
	r.taken.Store(err == nil) // otherwise it may hand out for ever
	if err == nil {
		err = r.mark.clear()
	}
	return errors.Join(err, r.pipe.SetReadDeadline(time.Now().Add(lastWords))) // for a read that waits
}

// message is one message of the kernel; what it holds is valid until the next one.
type message struct {
	uapi.MessageHeader
	body []byte
}

// next reads a message. io.EOF is the end of them; another error says that where the next
// one begins is not known.
func (r *registration) next(buffer *[]byte) (m message, err error) {
	if r.taken.Load() { // to hand back what came before may have taken long
		if err := r.pipe.SetReadDeadline(time.Now().Add(lastWords)); err != nil {
			return m, err
		}
	}
	var head [uapi.MessageHeaderSize]byte
	if _, err := io.ReadFull(r.pipe, head[:]); err != nil {
		return m, err
	}
	if m.MessageHeader, err = uapi.DecodeMessageHeader(head[:]); err != nil {
		return m, err
	}
	if cap(*buffer) < m.Length {
		*buffer = make([]byte, m.Length)
	}
	m.body = (*buffer)[:m.Length]
	if _, err = io.ReadFull(r.pipe, m.body); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return m, err
}
