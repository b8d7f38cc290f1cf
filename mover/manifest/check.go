package manifest

import (
	"slices"
	"strings"

	"datamove.dev/mover"
)

// problem says what is wrong with an entry by itself; "" when it can stand in a
// manifest.
func problem(e *mover.Entry) string {
	switch {
	case !mover.ValidName(e.Name):
		return "the name leads out of the tree, or is none"
	case len(e.Name) > maxName:
		return "the name is too long"
	case e.Kind < mover.File || e.Kind > mover.BlockDevice:
		return "the kind is not known"
	case e.Name == "" && e.Kind != mover.Dir:
		return "the root is not a directory"
	case e.Size < 0 || e.Kind != mover.File && e.Size != 0:
		return "the size can not be"
	case e.Mode > 0o7777:
		return "the mode can not be"
	case e.Kind == mover.Symlink && (e.Target == "" || len(e.Target) > maxTarget || strings.IndexByte(e.Target, 0) >= 0):
		return "the target of the link can not be"
	case !validTime(e.Mtime) || !validTime(e.Atime) || !validTime(e.Ctime):
		return "a time can not be"
	}
	if why := xattrProblem(e.Xattrs); why != "" {
		return why
	}
	return dataProblem(e)
}

func validTime(t mover.Time) bool { return t.Nsec >= 0 && t.Nsec < second }

func xattrProblem(all []mover.Xattr) string {
	for i := range all {
		if all[i].Name == "" || strings.IndexByte(all[i].Name, 0) >= 0 {
			return "an extended attribute has no name"
		}
	}
	if !slices.IsSortedFunc(all, func(a, b mover.Xattr) int { return strings.Compare(a.Name, b.Name) }) {
		return "the extended attributes are not sorted"
	}
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			return "an extended attribute is there twice"
		}
	}
	return ""
}

func dataProblem(e *mover.Entry) string {
	end := int64(0)
	for _, s := range e.Data {
		if s.Start < end || s.Start >= s.End || s.End > e.Size {
			return "the data segments overlap, or lie outside of the file"
		}
		end = s.End
	}
	return ""
}
