package gpfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// world is a file system of our own that behaves like one of GPFS as far as its filesets,
// quotas and pools go: a directory, and a file beside it that remembers. The mm commands and
// the GUI of the tests both play in it.
type world struct {
	Name, Mount, Theirs string // Theirs is where the cluster says that it is mounted
	NextID              uint32
	Filesets            []Fileset
	Quotas              map[string]lustre.Limits
	Files               map[uint64]Attributes // by inode
	NoQuota             bool                  // quotas are not enforced
	Deaf                bool                  // says yes and does nothing
	Stuck               string                // a command that fails
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	mount := filepath.Join(t.TempDir(), "fs1")
	must.Do(t, os.MkdirAll(filepath.Join(mount, "vision", "deep"), 0o755))
	w := &world{Name: "fs1", Mount: mount, Theirs: "/gpfs/fs1", NextID: 5, Quotas: map[string]lustre.Limits{}, Files: map[uint64]Attributes{},
		Filesets: []Fileset{{Name: "root", Junction: "/gpfs/fs1", Independent: true}, {Name: "vision", ID: 1, Junction: "/gpfs/fs1/vision", InodeSpace: 1, Independent: true}, {Name: "old-runs", ID: 2, InodeSpace: 2, Independent: true}}}
	w.save(t, dir)
	return w
}

func (w *world) save(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, w.keep(dir))
}

func (w *world) keep(dir string) error {
	text, err := json.Marshal(w)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "world.json"), text, 0o600))
}

func loadWorld(dir string) (*world, error) {
	text, err := os.ReadFile(filepath.Join(dir, "world.json"))
	w := &world{}
	return w, errors.Join(err, json.Unmarshal(text, w))
}

// here is where a path of the cluster is on this machine.
func (w *world) here(path string) string { return w.Mount + strings.TrimPrefix(path, w.Theirs) }

func inode(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

// filesets returns them with the inodes that their roots have now.
func (w *world) filesets() []Fileset {
	all := slices.Clone(w.Filesets)
	for i := range all {
		if all[i].Junction != "" {
			all[i].RootInode, _ = inode(w.here(all[i].Junction))
		}
	}
	return all
}

func (w *world) find(name string) (*Fileset, error) {
	for i := range w.Filesets {
		if w.Filesets[i].Name == name {
			return &w.Filesets[i], nil
		}
	}
	return nil, fmt.Errorf("fileset %s: %w", name, fs.ErrNotExist)
}

func (w *world) create(name, within string) error {
	parent, err := w.find(within)
	if err != nil || !parent.Independent {
		return errors.Join(err, fmt.Errorf("fileset %s has no inodes of its own", within))
	}
	if _, err := w.find(name); err == nil {
		return fmt.Errorf("EFSSP1102C fileset %s: %w", name, fs.ErrExist)
	}
	w.Filesets = append(w.Filesets, Fileset{Name: name, ID: w.NextID, InodeSpace: parent.InodeSpace})
	w.NextID++
	return nil
}

func (w *world) link(name, junction string) error {
	f, err := w.find(name)
	if err == nil && w.holds(path.Dir(junction)).InodeSpace != f.InodeSpace {
		err = errors.New("a dependent fileset can only be linked inside its own inode space")
	}
	if err == nil {
		err = os.Rename(w.apart(name), w.here(junction)) // with what was in it when it was unlinked
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(w.here(junction), 0o700)
		}
	}
	if err == nil {
		f.Junction = junction
	}
	return err
}

// apart is where the content of a fileset is that is not linked.
func (w *world) apart(name string) string { return filepath.Join(filepath.Dir(w.Mount), "apart-"+name) }

// holds is the fileset of a path, as the cluster says it.
func (w *world) holds(path string) (holder Fileset) {
	for _, f := range w.Filesets {
		if f.Junction != "" && below(path, f.Junction) && len(f.Junction) >= len(holder.Junction) {
			holder = f
		}
	}
	return holder
}

// unlink takes a fileset out of the tree, and while files of it are open only by force.
func (w *world) unlink(name string, force bool) error {
	f, err := w.find(name)
	switch {
	case err != nil:
		return err
	case f.Junction == "":
		return errors.New("it is not linked")
	}
	for _, other := range w.Filesets {
		if other.Name != name && other.Junction != "" && below(other.Junction, f.Junction) {
			return fmt.Errorf("fileset %s is linked in it", other.Name)
		}
	}
	if !force && isOpen(w.here(f.Junction)) {
		return errors.New("fileset has open files: specify -f to force unlink") // mmunlinkfileset(8), 5.2
	}
	err = os.Rename(w.here(f.Junction), w.apart(name))
	f.Junction = ""
	return err
}

// isOpen reports whether this process has a directory open, or what is in it.
func isOpen(dir string) bool {
	open, _ := filepath.Glob("/proc/self/fd/*")
	return slices.ContainsFunc(open, func(fd string) bool {
		name, err := os.Readlink(fd)
		return err == nil && below(name, dir)
	})
}

// remove deletes a fileset, and what is in it if it is told to.
func (w *world) remove(name string, force bool) error {
	f, err := w.find(name)
	if err == nil && f.Junction != "" {
		err = errors.New("it is linked")
	}
	if left, _ := os.ReadDir(w.apart(name)); err == nil && len(left) > 0 && !force {
		err = errors.New("it contains files: -f deletes them")
	}
	if err == nil {
		err = os.RemoveAll(w.apart(name))
	}
	if err == nil {
		w.Filesets = slices.DeleteFunc(w.Filesets, func(f Fileset) bool { return f.Name == name })
		delete(w.Quotas, name)
	}
	return err
}

// blockOf is what GPFS would round limits up to.
const blockOf = 4 << 20

func (w *world) limit(name string, l lustre.Limits) error {
	if _, err := w.find(name); err != nil || w.Deaf {
		return err
	}
	if l.HardBytes > 0 && l.SoftBytes > l.HardBytes || l.HardFiles > 0 && l.SoftFiles > l.HardFiles {
		return errors.New("the soft limit is above the hard one")
	}
	up := func(n int64) int64 { return (n + blockOf - 1) / blockOf * blockOf }
	w.Quotas[name] = lustre.Limits{SoftBytes: up(l.SoftBytes), HardBytes: up(l.HardBytes), SoftFiles: l.SoftFiles, HardFiles: l.HardFiles}
	return nil
}

// enforced is what both ways say of quotas.
func (w *world) enforced() string {
	if w.NoQuota {
		return "none"
	}
	return "user;group;fileset"
}

// playWorld is an mm command in the world.
func playWorld(name, dir string, arguments []string, stdout, said io.Writer) int {
	w, err := loadWorld(dir)
	var out string
	if err == nil && w.Stuck == name {
		err = errors.New("the daemon is down")
	}
	if err == nil {
		out, err = w.command(name, arguments)
	}
	if err == nil {
		err = w.keep(dir)
	}
	fmt.Fprint(stdout, out)
	if err != nil {
		fmt.Fprintf(said, "%s: %v\n%s: Command failed. Examine previous error messages to determine cause.\n", name, err, name)
		return 1
	}
	return 0
}

func (w *world) command(name string, a []string) (string, error) {
	device := strings.TrimPrefix(strings.SplitN(strings.Join(a, "\n"), "\n", 2)[0], "/dev/")
	if fileSystem, _, _ := strings.Cut(device, ":"); fileSystem != w.Name && name != "mmlsquota" && name != "mmlsattr" && name != "mmchattr" {
		return "", fmt.Errorf("file system %s is not known: %w", fileSystem, fs.ErrNotExist)
	}
	switch name {
	case "mmlsfs":
		return w.attributesOfFS(), nil
	case "mmlsfileset":
		return w.listFilesets(), nil
	case "mmlsquota": // -j NAME DEVICE -Y
		return w.listQuota(a[1])
	case "mmsetquota": // DEVICE:NAME --block S:H --files S:H
		var l lustre.Limits
		_, err1 := fmt.Sscanf(a[2], "%dK:%dK", &l.SoftBytes, &l.HardBytes)
		_, err2 := fmt.Sscanf(a[4], "%d:%d", &l.SoftFiles, &l.HardFiles)
		l.SoftBytes, l.HardBytes = l.SoftBytes<<10, l.HardBytes<<10
		_, fileset, _ := strings.Cut(a[0], ":")
		return "", errors.Join(err1, err2, w.limit(fileset, l))
	case "mmcrfileset":
		return "", w.create(a[1], a[3]) // DEVICE NAME --inode-space WITHIN
	case "mmlinkfileset": // DEVICE NAME -J JUNCTION
		return "", w.link(a[1], a[3])
	case "mmunlinkfileset":
		return "", w.unlink(a[1], slices.Contains(a, "-f"))
	case "mmdelfileset":
		return "", w.remove(a[1], slices.Contains(a, "-f"))
	case "mmlsattr":
		return w.listAttributes(a[2])
	case "mmchattr":
		return "", w.changeAttributes(a)
	}
	return "", fmt.Errorf("no %s in this world", name)
}

func (w *world) attributesOfFS() string {
	out := "mmlsfs::HEADER:version:reserved:reserved:deviceName:fieldName:data:remarks:\n"
	for _, f := range [][2]string{{"quotasEnforced", w.enforced()}, {"defaultMountPoint", strings.ReplaceAll(w.Theirs, "/", "%2F")}} {
		out += fmt.Sprintf("mmlsfs::0:1:::%s:%s:%s::\n", w.Name, f[0], f[1])
	}
	return out
}

func (w *world) listFilesets() string {
	out := "mmlsfileset::HEADER:version:reserved:reserved:filesystemName:filesetName:id:rootInode:status:path:inodeSpace:isInodeSpaceOwner:\n"
	for _, f := range w.filesets() {
		status, path := "Linked", strings.ReplaceAll(f.Junction, "/", "%2F")
		if f.Junction == "" {
			status, path = "Unlinked", "%2D%2D"
		}
		owner := 0
		if f.Independent {
			owner = 1
		}
		out += fmt.Sprintf("mmlsfileset::0:1:::%s:%s:%d:%d:%s:%s:%d:%d:\n", w.Name, f.Name, f.ID, f.RootInode, status, path, f.InodeSpace, owner)
	}
	return out
}

func (w *world) listQuota(name string) (string, error) {
	f, err := w.find(name)
	if err != nil {
		return "", err
	}
	out := "mmlsquota:fileset:HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:\n"
	if l, ok := w.Quotas[name]; ok {
		out += fmt.Sprintf("mmlsquota:fileset:0:1:::%s:FILESET:%d:%s:64:%d:%d:0:none:3:%d:%d:0:none:\n", w.Name, f.ID, name, l.SoftBytes>>10, l.HardBytes>>10, l.SoftFiles, l.HardFiles)
	}
	return out, nil
}

func (w *world) listAttributes(path string) (string, error) {
	n, err := inode(path)
	if err != nil {
		return "", err
	}
	a, ok := w.Files[n]
	if !ok {
		a = Attributes{Pool: "system", Copies: 1}
	}
	return fmt.Sprintf("file name:            %s\ndata replication:     %d max 2\nflags:\nstorage pool name:    %s\nfileset name:         %s\nsnapshot name:\n",
		path, a.Copies, a.Pool, w.holds(w.Theirs+strings.TrimPrefix(path, w.Mount)).Name), nil
}

func (w *world) changeAttributes(a []string) error {
	n, err := inode(a[len(a)-1])
	if err != nil || w.Deaf {
		return err
	}
	now := Attributes{Pool: "system", Copies: 1}
	for i := 1; i+1 < len(a)-1; i += 2 { // behind -l
		switch a[i] {
		case "-P":
			if now.Pool = a[i+1]; now.Pool != "system" && now.Pool != "data" {
				return fmt.Errorf("there is no pool of that name")
			}
		case "-r":
			now.Copies, err = strconv.Atoi(a[i+1])
		}
	}
	w.Files[n] = now
	return err
}

// hangWithChild waits as a script does whose own command hangs.
func hangWithChild(dir string) {
	child := exec.Command(filepath.Join(dir, "mmlsfs"), "hang")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(98)
	}
	_ = os.WriteFile(filepath.Join(dir, "child"), []byte(strconv.Itoa(child.Process.Pid)), 0o600)
	_ = child.Wait()
	os.Exit(97)
}
