package slurmconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The bounds of what is read of a site.
const (
	bytesMost = 4 << 20 // of all files together
	filesMost = 100
	depthMost = 10 // of files that include each other
	textMost  = 256 << 10
)

// loader reads a configuration with what it includes.
type loader struct {
	files fs.FS
	conf  Conf
	from  []string // the files that were read
	wrong []Finding
	bytes int64
	count int
}

// load reads a configuration, and says from which files. What can not be read is a finding.
func load(files fs.FS, file string) (conf Conf, from []string, wrong []Finding) {
	l := &loader{files: files, conf: Conf{}}
	l.read(file, file+" is not there", 0)
	return l.conf, l.from, l.wrong
}

func (l *loader) read(file, from string, depth int) {
	l.count++
	text, err := l.text(file)
	switch {
	case depth > depthMost, l.count > filesMost:
		err = errors.New("files include each other without end")
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New(from)
	}
	if err != nil {
		if len(l.wrong) < 10 {
			l.wrong = append(l.wrong, fault(file, "file", reason(err), "mend the Include, or make the file readable"))
		}
		return
	}
	if !slices.Contains(l.from, file) {
		l.from = append(l.from, file)
	}
	for _, at := range lines(text) {
		if name, is := included(at.text); is {
			if l.count <= filesMost {
				l.read(l.beside(file, name), fmt.Sprintf("it is not there; %s:%d includes it, and Slurm does not start without", file, at.number), depth+1)
			}
			continue
		}
		if s, ok := setting(at.text); ok {
			s.File, s.Line = file, at.number
			l.conf[strings.ToLower(s.Key)] = append(l.conf[strings.ToLower(s.Key)], s)
		}
	}
}

// beside is the path of a file that another one includes. Slurm 22.05 looks beside that one.
func (l *loader) beside(file, name string) string {
	name = strings.ReplaceAll(name, "%c", l.conf.value("ClusterName", ""))
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(file), name)
	}
	return path.Clean(name)
}

func (l *loader) text(file string) (string, error) {
	text, err := read(l.files, file, bytesMost-l.bytes)
	l.bytes += int64(len(text))
	return text, err
}

// read returns the text of a regular file of at most so many bytes.
func read(files fs.FS, file string, most int64) (string, error) {
	info, err := fs.Stat(files, name(file))
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	}
	f, err := files.Open(name(file))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return "", fmt.Errorf("it has more than %d bytes", most)
	}
	return string(text), err
}

// name is the one by which a file system knows an absolute path.
func name(file string) string {
	if file = strings.TrimLeft(path.Clean(file), "/"); file == "" {
		return "."
	}
	return file
}

// reason is an error without the path, which a finding has already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
