package telemetry

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What is read of the kernel for one scrape.
const (
	maxStatsBytes  = 8 << 20 // a node with 10,000 mounts writes 4 MiB
	maxStatsLine   = 64 << 10
	maxLustreMount = 64
)

// cacheStats is what a file system tells of a client's cache. Nil is not told.
type cacheStats struct {
	hits, misses  *uint64 // pages
	read, fetched *uint64 // bytes
}

// ClientCaches tells how well this node's caches of mounted tiers do: of each tier
// with a path, as the configuration has it, on Lustre or NFS. Others have nothing
// to tell, and nor has a kernel that lets only root look.
func (s *Sample) ClientCaches(paths map[string]string) {
	if len(paths) == 0 {
		return
	}
	mounts := readMounts(s.m.root)
	for tier, path := range paths {
		mount, ok := under(mounts, path)
		if !ok {
			continue
		}
		c := mount.cache
		if mount.system == "lustre" {
			c = lustreCache(s.m.root, mount.source)
		}
		s.reading(rowCacheHits, c.hits, tier)
		s.reading(rowCacheMisses, c.misses, tier)
		s.reading(rowClientRead, c.read, tier)
		s.reading(rowClientFetched, c.fetched, tier)
	}
}

func (s *Sample) reading(r reading, v *uint64, tier string) {
	if v != nil {
		s.put(r.Row, float64(*v), tier)
	}
}

// mounted is one line of mountstats, and what an NFS mount tells below it.
type mounted struct {
	source, dir, system string
	cache               cacheStats
}

// readMounts reads what is mounted. What can not be read is not told.
func readMounts(root string) []mounted {
	f, err := os.Open(filepath.Join(root, "proc/self/mountstats"))
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseMountstats(f)
}

// parseMountstats reads proc(5)'s mountstats: a line for each mount,
//
//	device SOURCE mounted on DIR with fstype TYPE [statvers=1.1]
//
// and below one of NFS indented lines, of which "bytes:" has eight counters. Of a line
// that it does not understand it tells nothing.
func parseMountstats(r io.Reader) []mounted {
	var mounts []mounted
	for line := range lines(r) {
		fields := bytes.Fields(line)
		switch {
		case len(fields) >= 8 && string(fields[0]) == "device" && string(fields[2]) == "mounted" && string(fields[6]) == "fstype":
			mounts = append(mounts, mounted{source: unescape(fields[1]), dir: unescape(fields[4]), system: string(fields[7])})
		case len(fields) == 9 && string(fields[0]) == "bytes:" && len(mounts) > 0:
			if last := &mounts[len(mounts)-1]; strings.HasPrefix(last.system, "nfs") {
				last.cache = nfsCache(fields[1:])
			}
		}
	}
	return mounts
}

// nfsCache reads the counters of an NFS mount: bytes that programs read and wrote
// through the cache, the same past the cache, bytes that were read from the server and
// written to it, and pages.
func nfsCache(fields [][]byte) cacheStats {
	normal, direct, server := number(fields[0]), number(fields[2]), number(fields[4])
	if normal == nil || direct == nil || server == nil {
		return cacheStats{}
	}
	all := *normal + *direct
	return cacheStats{read: &all, fetched: server}
}

// lustreCache reads the counters of every mount of a Lustre file system on this node.
// Older releases have them below /proc, newer ones in debugfs.
func lustreCache(root, source string) cacheStats {
	name, ok := fsname(source)
	if !ok {
		return cacheStats{}
	}
	var sum cacheStats
	for _, dir := range []string{"proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite"} {
		found, err := filepath.Glob(filepath.Join(root, dir, name+"-*"))
		if err != nil || len(found) == 0 {
			continue
		}
		for _, mount := range found[:min(len(found), maxLustreMount)] {
			addFile(filepath.Join(mount, "stats"), &sum)
			addFile(filepath.Join(mount, "read_ahead_stats"), &sum)
		}
		if sum != (cacheStats{}) {
			break
		}
	}
	return sum
}

// fsname is the name of the Lustre file system in NID[:NID]:/FSNAME[/SUB].
func fsname(source string) (string, bool) {
	_, path, ok := strings.Cut(source, ":/")
	name, _, _ := strings.Cut(path, "/")
	valid := ok && name != "" && len(name) <= 8 && !strings.ContainsAny(name, `*?[\.`)
	return name, valid
}

func addFile(path string, to *cacheStats) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	parseLustre(f, to)
}

// parseLustre adds what llite's stats and read_ahead_stats tell:
//
//	hits                      353601375 samples [pages]
//	misses                    413852 samples [pages]
//	read_bytes                120 samples [bytes] 4096 4194304 503316480
//
// Newer releases have more columns behind, sums and sums of squares.
func parseLustre(r io.Reader, to *cacheStats) {
	for line := range lines(r) {
		fields := bytes.Fields(line)
		if len(fields) < 4 || string(fields[2]) != "samples" {
			continue
		}
		switch unit := string(fields[3]); {
		case string(fields[0]) == "hits" && unit == "[pages]":
			to.hits = plus(to.hits, number(fields[1]))
		case string(fields[0]) == "misses" && unit == "[pages]":
			to.misses = plus(to.misses, number(fields[1]))
		case string(fields[0]) == "read_bytes" && unit == "[bytes]" && len(fields) >= 7:
			to.read = plus(to.read, number(fields[6]))
		}
	}
}

func plus(a, b *uint64) *uint64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	sum := *a + *b
	return &sum
}

// number reads a counter of the kernel. One beyond what a float keeps is no counter.
func number(text []byte) *uint64 {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return nil
	}
	return &n
}

// under finds the mount that path lies on: of the deepest, the last, which hides the
// others.
func under(mounts []mounted, path string) (mounted, bool) {
	var best mounted
	path = filepath.Clean(path)
	for _, m := range mounts {
		inside := m.dir == "/" || path == m.dir || strings.HasPrefix(path, m.dir+"/")
		if inside && len(m.dir) >= len(best.dir) {
			best = m
		}
	}
	return best, best.dir != ""
}

// lines yields lines of text, none longer than maxStatsLine, within maxStatsBytes.
func lines(r io.Reader) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		sc := bufio.NewScanner(io.LimitReader(r, maxStatsBytes))
		sc.Buffer(nil, maxStatsLine)
		for sc.Scan() {
			if !yield(sc.Bytes()) {
				return
			}
		}
	}
}

// unescape undoes what the kernel does to blanks and backslashes: \040.
func unescape(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	var b strings.Builder
	for len(text) > 0 {
		if len(text) >= 4 && text[0] == '\\' {
			if n, err := strconv.ParseUint(string(text[1:4]), 8, 8); err == nil {
				b.WriteByte(byte(n))
				text = text[4:]
				continue
			}
		}
		b.WriteByte(text[0])
		text = text[1:]
	}
	return b.String()
}
