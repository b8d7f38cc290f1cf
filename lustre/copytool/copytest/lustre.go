// Package copytest is a Lustre with HSM as a copytool sees it, for tests: real files below
// .lustre/fid of a folder, a real pipe, and an MDT that hands out actions and compares what
// it is told with what a Lustre 2.17 was seen to accept. What a copytool does wrong is an
// error of the test.
package copytest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// Name is that of the file system.
const Name = "lab"

// FirstCookie is the cookie of the first action that is handed out; the others follow.
const FirstCookie = 0x6b000001

// Archive is the number under which actions are handed out.
const Archive = 2

// Lustre is a folder that behaves like a mounted Lustre with two MDTs.
type Lustre struct {
	Mount string
	t     testing.TB

	kuc sync.Mutex // held while the pipe is written into and when it is exchanged, as in the kernel; before mu

	mu       sync.Mutex
	changed  *sync.Cond            // all below has changed
	files    map[lustre.FID]*state // guarded by mu, as all below
	swaps    map[uint64]*volatile  // files without a name, by inode
	requests map[uint64]*request   // by cookie
	pipe     *os.File              // what actions are written into; nil while no copytool is registered
	writing  bool                  // a message, into the pipe
	dead     bool                  // a killed copytool is still registered
	served   []uint32              // archives
	next     uint32                // FID and cookie
	times    int                   // that a copytool was registered
	paths    map[lustre.FID]string // what FIDToPath says
	ends     map[lustre.FID]uint64 // data version at the last accepted end of an archive
	refuse   map[uint]unix.Errno   // what requests are answered with
}

// state is what HSM knows of a file.
type state struct {
	writes    uint64
	archived  bool
	released  bool
	encrypted bool
}

// volatile is a file that ends with its descriptor.
type volatile struct {
	fid   lustre.FID
	file  *os.File
	times *uapi.Times
}

// request is an action that was handed out.
type request struct {
	uapi.ActionItem
	started, cancelled bool
	lost               bool // its process was killed: the next one need not know that it has ended
	version            uint64
	told               uint64
	end                *uapi.Copy
	progressed         int
	heard              bool // since the last Timeout
}

// New makes a Lustre in a folder, which may have files of an earlier one.
func New(t testing.TB, dir string) *Lustre {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Join(dir, ".lustre/fid"), 0o755))
	l := &Lustre{
		Mount: dir, t: t, files: map[lustre.FID]*state{}, swaps: map[uint64]*volatile{}, requests: map[uint64]*request{},
		paths: map[lustre.FID]string{}, ends: map[lustre.FID]uint64{}, refuse: map[uint]unix.Errno{},
	}
	l.changed = sync.NewCond(&l.mu)
	t.Cleanup(l.close)
	return l
}

func (l *Lustre) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.swaps {
		_ = v.file.Close()
	}
	if l.pipe != nil {
		_ = l.pipe.Close()
	}
}

// wrong is a mistake of the copytool.
func (l *Lustre) wrong(format string, args ...any) unix.Errno {
	l.t.Errorf("the copytool: "+format, args...)
	return unix.EINVAL
}

// secondMDT is where the numbers of the second MDT begin.
const secondMDT = 0x240000000

// FID is the n-th file: those of odd numbers are on the second MDT.
func FID(n uint32) lustre.FID {
	if n%2 == 1 {
		return lustre.FID{Seq: secondMDT + 0x402, OID: n}
	}
	return lustre.FID{Seq: 0x200000402, OID: n}
}

// MDT is the index of the one that a file is on.
func MDT(f lustre.FID) int {
	if f.Seq >= secondMDT {
		return 1
	}
	return 0
}

func (l *Lustre) at(f lustre.FID) string { return filepath.Join(l.Mount, ".lustre/fid", f.Name()) }

// Write makes a file with a content, or gives it another one.
func (l *Lustre) Write(n uint32, content []byte) lustre.FID {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f := FID(n)
	if err := os.WriteFile(l.at(f), content, 0o640); err != nil {
		l.t.Fatal(err)
	}
	if l.files[f] == nil {
		l.files[f] = &state{}
	}
	l.files[f].writes++
	l.paths[f] = fmt.Sprintf("project/file %d", n)
	return f
}

// Read is the content of a file, released or not.
func (l *Lustre) Read(f lustre.FID) []byte {
	l.t.Helper()
	b, err := os.ReadFile(l.at(f))
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// Unlink removes a file.
func (l *Lustre) Unlink(f lustre.FID) {
	l.t.Helper()
	if err := os.Remove(l.at(f)); err != nil {
		l.t.Fatal(err)
	}
}

// Release takes the content of a file that is archived as it is now: an MDT allows no other.
func (l *Lustre) Release(f lustre.FID) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.files[f]
	file, err := os.OpenFile(l.at(f), os.O_RDWR, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	now, err := l.version(int(file.Fd()))
	if err != nil || !s.archived || now != l.ends[f] {
		l.t.Fatalf("%v can not be released: archived %v, version %d and not %d, %v", f, s.archived, l.ends[f], now, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		err = file.Truncate(info.Size())
	}
	if err == nil {
		err = os.Chtimes(file.Name(), info.ModTime(), info.ModTime())
	}
	if err != nil {
		l.t.Fatal(err)
	}
	s.released = true
}

// Encrypt has a file be one that is encrypted.
func (l *Lustre) Encrypt(f lustre.FID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[f].encrypted = true
}

// Encrypted is the kernel, as copytool.Options wants it.
func (l *Lustre) Encrypted(fd int) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stateOf(fd)
	return s != nil && s.encrypted, nil
}

// Released reports whether the content of a file is in the archive only.
func (l *Lustre) Released(f lustre.FID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[f].released
}

// Killed ends the copytool's pipe as its death does: the MDT does not hear of that, and has
// it registered still. What was handed out is in work there, for the next one to begin anew.
func (l *Lustre) Killed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipe != nil {
		_ = l.pipe.Close()
	}
	l.pipe, l.dead = nil, true
	for _, r := range l.requests {
		r.lost, r.started, r.told = true, false, 0
	}
}

// Running is an action that was handed out to a copytool of before, which was killed.
func (l *Lustre) Running(a uapi.CopyAction, f lustre.FID) (cookie uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	item := l.item(a, f)
	l.requests[item.Cookie] = &request{ActionItem: item, lost: true}
	return item.Cookie
}

// item makes an action on a file; mu is held.
func (l *Lustre) item(a uapi.CopyAction, f lustre.FID) uapi.ActionItem {
	l.next++
	return uapi.ActionItem{Action: a, FID: f, Data: f, Extent: uapi.Extent{Length: uapi.WholeFile}, Cookie: FirstCookie - 1 + uint64(l.next), Blob: []byte("tag")[:l.next%4]}
}

// Refuse has requests of a kind answered with an error; 0 ends it.
func (l *Lustre) Refuse(request uint, errno unix.Errno) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse[request] = errno
}

// waitFor waits for a condition; mu is held by it.
func (l *Lustre) waitFor(what string, ok func() bool) {
	l.t.Helper()
	late := time.AfterFunc(time.Minute, func() { l.mu.Lock(); l.changed.Broadcast(); l.mu.Unlock() })
	defer late.Stop()
	begun := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !ok() {
		if time.Since(begun) > time.Minute {
			l.t.Fatalf("waited a minute for %s", what)
		}
		l.changed.Wait()
	}
}

// Registered waits until a copytool is.
func (l *Lustre) Registered() {
	l.t.Helper()
	l.waitFor("a copytool", func() bool { return l.pipe != nil })
}

// Registrations is how often a copytool was registered.
func (l *Lustre) Registrations() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times
}

// RegisteredAgain waits until one was registered so many times.
func (l *Lustre) RegisteredAgain(times int) {
	l.t.Helper()
	l.waitFor("a copytool to register again", func() bool { return l.pipe != nil && l.times >= times })
}

// Do hands an action on each of some files out, all in one list, and returns their cookies.
func (l *Lustre) Do(a uapi.CopyAction, files ...lustre.FID) (cookies []uint64) {
	l.t.Helper()
	list := uapi.ActionList{ArchiveID: Archive, Name: Name}
	l.mu.Lock()
	for _, f := range files {
		item := l.item(a, f)
		l.requests[item.Cookie] = &request{ActionItem: item, heard: true}
		list.Items, cookies = append(list.Items, item), append(cookies, item.Cookie)
	}
	l.mu.Unlock()
	l.Send(list)
	return cookies
}

// Again hands out an action once more that ended with the flag that allows it, as an MDT with the
// policy -NoRetryAction does.
func (l *Lustre) Again(cookie uint64) {
	l.t.Helper()
	l.mu.Lock()
	r := l.requests[cookie]
	if r.end == nil || r.end.Errno == 0 || r.end.Flags&uapi.CopyRetry == 0 {
		l.t.Errorf("%#x is handed out again: no MDT does so before it has failed with the flag that it may be: %+v", cookie, r.end)
	}
	*r = request{ActionItem: r.ActionItem, heard: true}
	list := uapi.ActionList{ArchiveID: Archive, Name: Name, Items: []uapi.ActionItem{r.ActionItem}}
	l.mu.Unlock()
	l.Send(list)
}

// Cancel asks for the end of an action. Without a message, only the next word about its
// progress is answered with it.
func (l *Lustre) Cancel(cookie uint64, message bool) {
	l.t.Helper()
	l.mu.Lock()
	r := l.requests[cookie]
	r.cancelled = true
	l.mu.Unlock()
	if message {
		l.Send(uapi.ActionList{ArchiveID: Archive, Name: Name, Items: []uapi.ActionItem{{Action: uapi.CopyCancel, FID: r.FID, Data: r.FID, Cookie: cookie}}})
	}
}

// Timeout is a round of the coordinator after active_request_timeout: it gives up all actions of
// which it has heard nothing since the round before, whether they are in work or wait in the
// copytool (lustre/mdt/mdt_coordinator.c mdt_cdt_started_cb, 2.15 to 2.17). That an action was
// handed out counts as a word.
func (l *Lustre) Timeout() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cookie, r := range l.requests {
		if r.end == nil && !r.heard {
			delete(l.requests, cookie)
		}
		r.heard = false
	}
}

// Heard waits until there was a word of each of these actions since the last Timeout.
func (l *Lustre) Heard(cookies ...uint64) {
	l.t.Helper()
	l.waitFor("a word of each action", func() bool {
		return !slices.ContainsFunc(cookies, func(c uint64) bool { return l.requests[c] != nil && !l.requests[c].heard })
	})
}

// Forget gives an action up, as after a timeout: its copytool is told that there is no such.
func (l *Lustre) Forget(cookie uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.requests, cookie)
}

// Send writes a list of actions.
func (l *Lustre) Send(list uapi.ActionList) {
	l.t.Helper()
	body := list.Encode()
	h := uapi.MessageHeader{Transport: 2, Type: uapi.Actions, Length: len(body)}
	l.Raw(append(h.Encode(), body...))
}

// Raw writes bytes as a message; they may be none. While no copytool is registered they wait, as
// an MDT's actions do.
func (l *Lustre) Raw(b []byte) {
	l.t.Helper()
	for !l.write(b) {
		l.Registered()
	}
}

func (l *Lustre) write(b []byte) (written bool) {
	l.t.Helper()
	l.kuc.Lock()
	defer l.kuc.Unlock()
	l.mu.Lock()
	pipe := l.pipe
	l.writing = pipe != nil
	l.mu.Unlock()
	if pipe == nil {
		return false
	}
	if _, err := io.Writer(pipe).Write(b); err != nil {
		l.t.Errorf("write to the copytool: %v", err)
	}
	l.mu.Lock()
	l.writing = false
	l.mu.Unlock()
	return true
}

// Full reports whether a message waits for room in the pipe.
func (l *Lustre) Full() bool {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.writing || l.pipe == nil {
		return false
	}
	room := 1
	must.Do(l.t, must.Get(l.pipe.SyscallConn())(l.t).Control(func(fd uintptr) {
		room = must.Get(unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0))(l.t)
	}))
	return room == 0
}

// End waits for the end of an action: 0, or why it failed, and whether it may be handed out
// again.
func (l *Lustre) End(cookie uint64) (errno unix.Errno, retry bool) {
	l.t.Helper()
	var r *request
	l.waitFor(fmt.Sprintf("the end of %#x", cookie), func() bool { r = l.requests[cookie]; return r.end != nil })
	return unix.Errno(r.end.Errno), r.end.Flags&uapi.CopyRetry != 0
}

// Progressed waits until an action was told to be under way so many times.
func (l *Lustre) Progressed(cookie uint64, times int) {
	l.t.Helper()
	l.waitFor("progress", func() bool { return l.requests[cookie].progressed >= times })
}
