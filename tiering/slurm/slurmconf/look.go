package slurmconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"syscall"
)

// looker looks at files.
type looker struct {
	files fs.FS
	may   func(uid uint32) bool // which users may own what Slurm runs
}

// The bounds of what is looked at: programs of a pattern, bytes of a path, and links on it.
const (
	programsMost = 100
	pathMost     = 4096
	linksMost    = 40
)

// named are the programs of a value. A pattern without any is one that is not there.
func (l looker) named(value string, pattern bool) []string {
	if value == "" {
		return nil
	}
	if !pattern || !strings.ContainsAny(value, "*?[") || strings.ContainsAny(path.Dir(value), "*?[") {
		return []string{value} // a pattern of directories may mean all of a machine
	}
	found, err := fs.Glob(l.files, name(value))
	if err != nil || len(found) == 0 {
		return []string{value}
	}
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found[:min(len(found), programsMost)]
}

// program looks at one.
func (l looker) program(file string) Program {
	p := Program{Path: file}
	if !path.IsAbs(file) || len(file) > pathMost {
		p.Err = errors.New("it is no absolute path")
		return p
	}
	info, err := fs.Stat(l.files, name(file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Err = errors.New("it is not there")
		return p
	case err != nil:
		p.Err = errors.New(reason(err))
		return p
	case !info.Mode().IsRegular():
		p.Err = errors.New("it is no regular file")
		return p
	}
	p.Mode = info.Mode()
	p.Loose = l.loose(file)
	return p
}

// hook looks at a program that has to run a hook of datamove.
func (l looker) hook(file, hook string) Program {
	p := l.program(file)
	if p.Err != nil {
		return p
	}
	text, err := read(l.files, file, textMost)
	if err != nil {
		return p // what is so large is no script
	}
	m := regexp.MustCompile(`(?m)^[^#\n]*?([^\s"'=;&|(]*/datamove)["']? hook ` + regexp.QuoteMeta(hook) + `(?:[\s;"'&|)]|$)`).FindStringSubmatch(text)
	if m != nil {
		called := l.program(m[1])
		p.Called = &called
	}
	return p
}

// script looks at a file of Lua.
func (l looker) script(file string) Script {
	s := Script{File: file}
	text, err := read(l.files, file, textMost)
	if s.Err = err; err != nil {
		return s
	}
	s.Mentions = strings.Contains(text, "datamove")
	s.Loose = l.loose(file)
	if m := versionLine.FindStringSubmatch(text); m != nil {
		s.Version = m[1]
	}
	if m := datamoveLine.FindStringSubmatch(text); m != nil {
		called := l.program(m[1])
		s.Called = &called
	}
	return s
}

// loose tells which users may exchange a file that should not: on the way to it, each directory, link and the file are looked at.
func (l looker) loose(file string) string {
	at, links := "/", 0
	for pending := parts(file); ; {
		if len(pending) == 0 {
			return l.open(at)
		}
		if who := l.open(at); who != "" {
			return who
		}
		next := path.Join(at, pending[0])
		pending = pending[1:]
		target, err := fs.ReadLink(l.files, name(next))
		if err != nil {
			at = next
			continue
		}
		if links++; links > linksMost {
			return "there are too many links on the way to it"
		}
		if path.IsAbs(target) {
			at = "/"
		}
		pending = append(parts(target), pending...)
	}
}

func parts(file string) []string {
	return strings.FieldsFunc(file, func(r rune) bool { return r == '/' })
}

// open tells which users may write to a file or directory that should not.
func (l looker) open(file string) string {
	info, err := fs.Lstat(l.files, name(file))
	if err != nil {
		return ""
	}
	uid, gid := owner(info)
	shared := info.IsDir() && info.Mode()&fs.ModeSticky != 0 // users that may make files there may not exchange those of others
	switch {
	case !l.may(uid):
		return fmt.Sprintf("%s belongs to uid %d", file, uid)
	case shared:
		return ""
	case info.Mode()&0o002 != 0:
		return fmt.Sprintf("every user may write to %s", file)
	case info.Mode()&0o020 != 0 && gid != 0:
		return fmt.Sprintf("the group %d may write to %s", gid, file)
	}
	return ""
}

// owner is the user and the group of a file; where a file system does not say, root's.
func owner(info fs.FileInfo) (uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid, st.Gid
	}
	return 0, 0
}

// records looks at the directory of the controller's records, as a user gets there.
func (l looker) records(dir string, uid uint32) Dir {
	d := Dir{Path: path.Clean(dir)}
	for _, above := range ways(d.Path) {
		info, err := fs.Stat(l.files, name(above))
		if err != nil {
			break // said below
		}
		if owner, _ := owner(info); d.Shut == "" && uid != 0 && owner != uid && info.Mode()&0o001 == 0 {
			d.Shut = above
		}
	}
	info, err := fs.Lstat(l.files, name(d.Path))
	switch {
	case err != nil:
		d.Err = err
	case !info.IsDir():
		d.Err = errors.New("it is no directory")
	default:
		d.Mode = info.Mode()
		d.Owner, _ = owner(info)
	}
	return d
}

// ways are the directories above a path, from the root on.
func ways(file string) (all []string) {
	for at := path.Dir(file); ; at = path.Dir(at) {
		all = append([]string{at}, all...)
		if at == "/" || at == "." {
			return all
		}
	}
}
