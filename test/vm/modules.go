package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// module is a file to load. A soft one may fail: it is one of several ways to the
// same, or the processor is not made for it.
type module struct {
	file string
	soft bool
}

// index is what depmod(8) has found out about the modules of one kernel.
type index struct {
	dir     string
	file    map[string]string   // by name
	deps    map[string][]string // names, by name: what to load before, the last one first
	soft    map[string][]string // names or aliases, by name: what to try before
	aliases map[string][]string // names, by alias without wildcards
	builtin map[string]bool
}

// loadOrder returns the modules and all that they depend on, in the order in which a
// kernel takes them. dir is /lib/modules/RELEASE.
func loadOrder(dir string, names []string) ([]module, error) {
	x, err := readIndex(dir)
	if err != nil {
		return nil, err
	}
	var order []module
	seen := map[string]bool{}
	for _, name := range names {
		name = plainName(name)
		if x.file[name] == "" && !x.builtin[name] && len(x.aliases[name]) == 0 {
			return nil, fmt.Errorf("%s has no module %s", dir, name)
		}
		x.add(name, false, seen, &order)
	}
	return order, nil
}

func (x *index) add(name string, soft bool, seen map[string]bool, order *[]module) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, want := range x.soft[name] {
		for _, alias := range append([]string{want}, x.aliases[want]...) {
			x.add(alias, true, seen, order)
		}
	}
	for i := len(x.deps[name]) - 1; i >= 0; i-- {
		x.add(x.deps[name][i], soft, seen, order)
	}
	if file := x.file[name]; file != "" {
		*order = append(*order, module{filepath.Join(x.dir, file), soft})
	}
}

func readIndex(dir string) (*index, error) {
	x := &index{dir, map[string]string{}, map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string]bool{}}
	for name, line := range map[string]func(string){
		"modules.dep": x.dep, "modules.softdep": x.softdep, "modules.alias": x.alias, "modules.builtin": x.built,
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		err = lines(f, line)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return x, nil
}

func lines(r io.Reader, each func(string)) error {
	s := bufio.NewScanner(r)
	for s.Scan() {
		each(s.Text())
	}
	return s.Err()
}

// dep reads "kernel/fs/a.ko: kernel/fs/b.ko kernel/lib/c.ko".
func (x *index) dep(line string) {
	file, rest, ok := strings.Cut(line, ":")
	if !ok {
		return
	}
	name := fileName(file)
	x.file[name] = file
	for _, dep := range strings.Fields(rest) {
		x.deps[name] = append(x.deps[name], fileName(dep))
	}
}

// softdep reads "softdep ext4 pre: crypto-crc32c post: other".
func (x *index) softdep(line string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "softdep" || words[2] != "pre:" {
		return
	}
	for _, word := range words[3:] {
		if word == "post:" {
			return
		}
		x.soft[plainName(words[1])] = append(x.soft[plainName(words[1])], plainName(word))
	}
}

// alias reads "alias crypto-crc32c crc32c_intel".
func (x *index) alias(line string) {
	words := strings.Fields(line)
	if len(words) == 3 && words[0] == "alias" && !strings.ContainsAny(words[1], "*?[") {
		x.aliases[plainName(words[1])] = append(x.aliases[plainName(words[1])], plainName(words[2]))
	}
}

func (x *index) built(line string) { x.builtin[fileName(line)] = true }

// fileName is the name of the module in a file. For the kernel, "-" and "_" are one.
func fileName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return plainName(name)
}

func plainName(name string) string { return strings.ReplaceAll(name, "-", "_") }
