package loadgen

import "fmt"

// rankDir is the directory of a rank.
func (t *Tree) rankDir(rank int) string { return fmt.Sprintf("%s/r%06d", t.Name, rank) }

// dir is the i-th directory of a rank, or the one of all.
func (t *Tree) dir(rank, i int) string {
	if t.Dirs == 0 {
		return t.Name
	}
	return fmt.Sprintf("%s/r%06d/d%06d", t.Name, rank, i)
}

// file is the i-th file of a rank.
func (t *Tree) file(rank, i int, renamed bool) string {
	end := ""
	if renamed {
		end = ".new"
	}
	switch {
	case t.Shared:
		return t.Name + "/shared"
	case t.Dirs == 0:
		return fmt.Sprintf("%s/r%06d-f%08d%s", t.Name, rank, i, end)
	}
	return fmt.Sprintf("%s/r%06d/d%06d/f%08d%s", t.Name, rank, i%t.Dirs, i, end)
}

// number is that of a file in the run: another for each.
func (t *Tree) number(rank, i int) uint64 {
	if t.Shared {
		return 1 << 63
	}
	return uint64(rank)<<32 | uint64(i)
}
