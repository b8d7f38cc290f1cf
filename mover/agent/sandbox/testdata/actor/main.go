// Actor is what the tests start: it enters, and then does what it is asked to, one
// line of JSON after the other, and says which error it got.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/agent/sandbox"
)

type request struct{ Op, A, B string }

type answer struct{ Error, Out string }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		parent()
	}
	if len(os.Args) > 1 && os.Args[1] == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	before := workers()
	conn, err := sandbox.Child()
	if err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(1)
	}
	after := workers()
	if len(os.Args) > 1 && os.Args[1] == "polite" {
		leave()
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var r request
		if err := in.Decode(&r); err != nil {
			select {} // the socket is closed: it is for Enter to notice
		}
		var a answer
		switch r.Op {
		case "threads before":
			a.Out = before(r.A)
		case "threads after":
			a.Out = after(r.A)
		default:
			var err error
			a.Out, err = do(r)
			a.Error = name(err)
		}
		if err := out.Encode(a); err != nil {
			os.Exit(2)
		}
	}
}

// leave ends the process in good order when it is asked to.
func leave() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		os.Exit(7)
	}()
}

// parent starts this program once more with the options of its argument, as soon as
// there is a line on its input, and says the id or the error. It lives until it is killed.
func parent() {
	fmt.Scanln()
	var o sandbox.Options
	if err := json.Unmarshal([]byte(os.Args[2]), &o); err != nil {
		panic(err)
	}
	p, err := sandbox.Start(context.Background(), o)
	if err != nil {
		fmt.Println("error", err, errors.Is(err, fs.ErrPermission))
		os.Exit(0)
	}
	fmt.Println("child", p.PID())
	select {}
}

// workers starts threads of their own, and returns what asks each of them to read
// a file: the errors that they got, each once.
func workers() func(path string) string {
	const count = 8
	paths, errs := make(chan string), make(chan string)
	for range count {
		go func() {
			runtime.LockOSThread()
			for path := range paths {
				_, err := os.ReadFile(path)
				errs <- name(err)
			}
		}()
	}
	return func(path string) string {
		for range count {
			paths <- path
		}
		var got []string
		for range count {
			got = append(got, <-errs)
		}
		slices.Sort(got)
		return strings.Join(slices.Compact(got), ",")
	}
}

// name is an error as the kernel calls it; "" is none.
func name(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func do(r request) (out string, err error) {
	switch r.Op {
	case "read":
		text, err := os.ReadFile(r.A)
		return string(text), err
	case "write":
		return "", os.WriteFile(r.A, []byte(r.B), 0o666)
	case "append":
		f, err := os.OpenFile(r.A, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(r.B)
			err = errors.Join(err, f.Close())
		}
		return "", err
	case "list":
		names, err := os.ReadDir(r.A)
		for _, n := range names {
			out += n.Name() + "\n"
		}
		return out, err
	case "mkdir":
		return "", os.MkdirAll(r.A, 0o777)
	case "remove":
		return "", os.Remove(r.A)
	case "rename":
		return "", os.Rename(r.A, r.B)
	case "exchange":
		return "", unix.Renameat2(unix.AT_FDCWD, r.A, unix.AT_FDCWD, r.B, unix.RENAME_EXCHANGE)
	case "link":
		return "", os.Link(r.A, r.B)
	case "symlink":
		return "", os.Symlink(r.B, r.A)
	case "truncate":
		return "", os.Truncate(r.A, 1)
	case "fifo":
		return "", unix.Mkfifo(r.A, 0o666)
	case "socket":
		return "", unix.Mknod(r.A, unix.S_IFSOCK|0o666, 0)
	case "ioctl":
		f, err := os.Open(r.A)
		if err != nil {
			return "", err
		}
		defer f.Close()
		_, err = unix.IoctlGetInt(int(f.Fd()), unix.BLKROGET) // which no character device knows
		return "", err
	case "device":
		return "", unix.Mknod(r.A, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	case "chown":
		uid, _ := strconv.Atoi(r.B)
		return "", os.Chown(r.A, uid, uid)
	case "setuid":
		return "", unix.Chmod(r.A, 0o4755)
	case "xattr":
		if err := unix.Setxattr(r.A, "user.test", []byte("value"), 0); err != nil {
			return "", err
		}
		value := make([]byte, 16)
		n, err := unix.Getxattr(r.A, "user.test", value)
		return string(value[:max(n, 0)]), err
	case "stat":
		info, err := os.Stat(r.A)
		if err != nil {
			return "", err
		}
		st := info.Sys().(*syscall.Stat_t)
		return fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode), nil
	case "statfs":
		var st unix.Statfs_t
		return "", unix.Statfs(r.A, &st)
	case "handle":
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, r.A, 0)
		return "", err
	case "reflink":
		return "", reflink(r.A, r.B)
	case "run":
		return "", exec.Command(r.A).Run()
	case "chdir":
		if err := os.Chdir(r.A); err != nil {
			return "", err
		}
		text, err := os.ReadFile(r.B)
		return string(text), err
	case "by descriptor":
		return byDescriptor(r.A, r.B)
	case "openat2":
		return openat2(r.A, r.B)
	case "environment":
		text, _ := os.ReadFile("/proc/self/environ") // only root may, for we can not be traced
		return fmt.Sprintf("%q %q", os.Environ(), text), nil
	case "arguments":
		return strings.Join(os.Args, " "), nil
	case "files":
		return files()
	case "panic":
		go func() { panic(r.A) }() // no recover of this process sees it
		select {}
	case "kill":
		pid, _ := strconv.Atoi(r.A)
		return "", unix.Kill(pid, 0)
	}
	return "", errors.New("no such thing")
}

func byDescriptor(dir, file string) (string, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%s", fd, file))
	return string(text), err
}

func openat2(dir, file string) (string, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, file, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	text := make([]byte, 64)
	n, err := f.Read(text)
	return string(text[:n]), err
}

func reflink(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd()))
}

// files are what is open, as the kernel calls it.
func files() (out string, err error) {
	names, err := os.ReadDir("/proc/self/fd")
	for _, n := range names {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", n.Name()))
		if err == nil {
			out += n.Name() + " " + to + "\n"
		}
	}
	return out, err
}
