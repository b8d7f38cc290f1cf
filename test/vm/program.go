package vm

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program adds a program of the host under its own path, with the libraries that
// its loader would take.
func (a *archive) program(name string) {
	if a.err != nil {
		return
	}
	path, err := exec.LookPath(name)
	if err != nil {
		a.err = fmt.Errorf("program %s %w", name, ErrMissing)
		return
	}
	files, err := libraries(path)
	if err != nil {
		a.err = err
		return
	}
	for _, file := range append(files, path) {
		in, err := unmerged(file)
		if err != nil {
			a.err = err
			return
		}
		a.copy(in, file, 0o755)
	}
}

// unmerged is a path without the links of its directories; the last name stays,
// because programs ask for a library by the name of a link.
func unmerged(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// libraries asks the loader of a program, by ldd(1), where its libraries are.
func libraries(path string) ([]string, error) {
	dynamic, err := isDynamic(path)
	if err != nil || !dynamic {
		return nil, err
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", path, err)
	}
	return parseLibraries(string(out))
}

// parseLibraries reads lines like "libc.so.6 => /lib/x/libc.so.6 (0x1234)" and
// "/lib64/ld-linux-x86-64.so.2 (0x1234)".
func parseLibraries(out string) (files []string, err error) {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "not found") {
			return nil, fmt.Errorf("ldd says %q", strings.TrimSpace(line))
		}
		for _, word := range strings.Fields(line) {
			if filepath.IsAbs(word) {
				files = append(files, word)
				break
			}
		}
	}
	return files, nil
}

// isDynamic says whether a file names a loader. A script has none.
func isDynamic(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	var format *elf.FormatError
	if errors.As(err, &format) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			return true, nil
		}
	}
	return false, nil
}
