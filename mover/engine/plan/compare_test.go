package plan

import (
	"testing"
	"time"

	"datamove.dev/mover"
)

const knownByStat = plainKnown | mover.FactCtime

// file is an entry as two equal files have it, with changes.
func file(change func(*mover.Entry)) mover.Entry {
	e := mover.Entry{
		Name: "f", Kind: mover.File, Size: 5, Mode: 0o644, UID: 7, GID: 8, Nlink: 1,
		Mtime: mover.Time{Sec: 100, Nsec: 5}, Ctime: mover.Time{Sec: 200}, Known: knownByStat,
	}
	if change != nil {
		change(&e)
	}
	return e
}

func TestDecide(t *testing.T) {
	type entry = mover.Entry
	same := func(*entry) {}
	listed := func(e *entry) { e.Brief, e.Known = true, 0 }
	walked := func(e *entry) { e.Brief, e.Known = true, knownByStat&^mover.FactXattrs }
	having := func(pairs ...string) func(*entry) {
		return func(e *entry) {
			for i := 0; i < len(pairs); i += 2 {
				e.Xattrs = append(e.Xattrs, mover.Xattr{Name: pairs[i], Value: []byte(pairs[i+1])})
			}
		}
	}
	summed := func(crc uint64) func(*entry) {
		return func(e *entry) { e.Known |= mover.FactCRC; e.CRC = crc }
	}
	for _, row := range []struct {
		what           string
		o              Options
		source, target func(*entry)
		op             Op
		why            string
	}{
		{"equal", Options{}, same, same, Keep, WhyEqual},
		{"full", Options{Full: true}, same, same, Replace, WhyFull},
		{"size", Options{}, same, func(e *entry) { e.Size = 6 }, Replace, WhySize},
		{"kind", Options{}, same, func(e *entry) { e.Kind = mover.FIFO; e.Size = 0 }, Replace, WhyKind},
		{"a nanosecond", Options{}, same, func(e *entry) { e.Mtime.Nsec++ }, Replace, WhyMtime},
		{"within the grain", Options{Times: mover.TimeRange{Grain: time.Second}}, same, func(e *entry) { e.Mtime = mover.Time{Sec: 99, Nsec: 6} }, Keep, WhyEqual},
		{"the grain", Options{Times: mover.TimeRange{Grain: time.Second}}, same, func(e *entry) { e.Mtime = mover.Time{Sec: 99, Nsec: 5} }, Replace, WhyMtime},
		{"it was cut to what the target keeps", Options{Times: mover.TimeRange{Last: 1<<32 - 1}}, func(e *entry) { e.Mtime = mover.Time{Sec: -1, Nsec: 5} }, func(e *entry) { e.Mtime = mover.Time{} }, Keep, WhyEqual},
		{"it was not", Options{Times: mover.TimeRange{Last: 1<<32 - 1}}, func(e *entry) { e.Mtime = mover.Time{Sec: -1, Nsec: 5} }, func(e *entry) { e.Mtime = mover.Time{Sec: 1} }, Replace, WhyMtime},
		{"it was cut to what the source keeps, and comes back", Options{SourceTimes: mover.TimeRange{Grain: time.Second}}, func(e *entry) { e.Mtime.Nsec = 0 }, same, Keep, WhyEqual},
		{"another second of the source", Options{SourceTimes: mover.TimeRange{Grain: time.Second}}, func(e *entry) { e.Mtime = mover.Time{Sec: 99} }, same, Replace, WhyMtime},
		{"contents are equal, the time was cut", Options{CompareBy: ByContent, Times: mover.TimeRange{Grain: time.Second}}, summed(1), func(e *entry) { summed(1)(e); e.Mtime.Nsec = 0 }, Keep, WhyEqual},
		{"mode", Options{}, same, func(e *entry) { e.Mode = 0o600 }, Update, WhyMode},
		{"mode that does not count", Options{ModeBits: 0o077}, same, func(e *entry) { e.Mode = 0o4644 }, Keep, WhyEqual},
		{"owner", Options{}, same, func(e *entry) { e.UID = 0 }, Update, WhyOwner},
		{"owner is not preserved", Options{Preserve: mover.FactMode}, same, func(e *entry) { e.UID = 0 }, Keep, WhyEqual},
		{"owner is not known there", Options{SourceKnows: mover.FactMode}, same, func(e *entry) { e.UID = 0 }, Keep, WhyEqual},
		{"owner can not be kept", Options{TargetKeeps: mover.FactMode}, same, func(e *entry) { e.UID = 0 }, Keep, WhyEqual},
		{"group", Options{}, same, func(e *entry) { e.GID = 0 }, Update, WhyGroup},
		{"atime never counts", Options{}, same, func(e *entry) { e.Atime.Sec = 9 }, Keep, WhyEqual},
		{"xattrs", Options{}, same, func(e *entry) { e.Xattrs = []mover.Xattr{{Name: "user.a"}} }, Update, WhyXattrs},
		{"shared inode", Options{}, same, func(e *entry) { e.Mode, e.Nlink = 0, 2 }, Replace, WhySharedInode},
		{"facts that the target has not", Options{}, same, func(e *entry) { e.Known &^= mover.FactMode }, Update, WhyFactsMissing},
		{"facts that the source has not", Options{}, func(e *entry) { e.Known &^= mover.FactMode }, same, Keep, WhyEqual},
		{"only listed target", Options{}, same, listed, Compare, WhyFactsUnknown},
		{"only listed source", Options{}, listed, same, Compare, WhyFactsUnknown},
		{"only listed, other size", Options{}, listed, func(e *entry) { e.Size = 6 }, Replace, WhySize},
		{"listed as a file", Options{}, func(e *entry) { e.Kind, e.Size = mover.Symlink, 0 }, listed, Compare, WhyFactsUnknown},
		{"no mtime", Options{}, func(e *entry) { e.Known &^= mover.FactMtime }, same, Compare, WhyMtimeUnknown},
		{"mtime is not preserved", Options{Preserve: mover.FactMode}, same, func(e *entry) { e.Mtime.Sec++ }, Compare, WhyMtimeUnknown},
		{"mtime is not preserved, checksums agree", Options{Preserve: mover.FactMode}, summed(1), func(e *entry) { summed(1)(e); e.Mtime.Sec++ }, Keep, WhyEqual},
		{"nothing is preserved", Options{Preserve: mover.FactCRC}, same, func(e *entry) { e.Mode, e.UID, e.GID = 0, 0, 0 }, Keep, WhyEqual},
		{"checksum", Options{CompareBy: ByContent}, same, same, Compare, WhyContentUnknown},
		{"checksum, other size", Options{CompareBy: ByContent}, same, func(e *entry) { e.Size = 6 }, Replace, WhySize},
		{"checksums agree", Options{CompareBy: ByContent}, summed(1), summed(1), Keep, WhyEqual},
		{"by size, other mtime", Options{CompareBy: BySize}, same, func(e *entry) { e.Mtime.Sec++ }, Update, WhyMtime},
		{"by size, other mtime, not preserved", Options{CompareBy: BySize, Preserve: mover.FactMode}, same, func(e *entry) { e.Mtime.Sec++ }, Keep, WhyEqual},
		{"by size, other checksum", Options{CompareBy: BySize}, summed(1), summed(2), Keep, WhyEqual},
		{"by size, no mtime", Options{CompareBy: BySize, Preserve: mover.FactCRC}, same, func(e *entry) { e.Known &^= mover.FactMtime }, Keep, WhyEqual},
		{"by size, other size", Options{CompareBy: BySize}, same, func(e *entry) { e.Size = 6 }, Replace, WhySize},
		{"by size, in full", Options{CompareBy: BySize, Full: true}, same, same, Replace, WhyFull},
		{"checksums agree, mtimes not", Options{CompareBy: ByContent}, summed(1), func(e *entry) { summed(1)(e); e.Mtime.Sec++ }, Update, WhyMtime},
		{"checksums differ", Options{}, summed(1), summed(2), Replace, WhyContent},
		{"one checksum says nothing", Options{}, summed(1), same, Keep, WhyEqual},
		{"walked without xattrs", Options{}, walked, walked, Compare, WhyFactsUnknown},
		{"walked without xattrs, source changed before", Options{}, func(e *entry) { walked(e); e.Ctime.Sec = 1 }, walked, Compare, WhyFactsUnknown},
		{"walked, no xattrs wanted", Options{Preserve: mover.FactMode | mover.FactMtime}, func(e *entry) { walked(e); e.Ctime.Nsec++ }, walked, Keep, WhyEqual},
		{"walked with xattrs", Options{}, func(e *entry) { e.Brief = true }, func(e *entry) { e.Brief = true }, Keep, WhyEqual},
		{"xattrs removed, target changed later", Options{}, same, func(e *entry) { e.Ctime.Sec++; e.Xattrs = []mover.Xattr{{Name: "user.a"}} }, Update, WhyXattrs},
		{"xattrs of another value", Options{}, having("user.a", "1"), having("user.a", "2"), Update, WhyXattrs},
		{"an ACL", Options{Xattrs: mover.XattrsOfACL}, having(mover.XattrAccessACL, "1"), same, Update, WhyXattrs},
		{"xattrs that only one side can have", Options{Xattrs: mover.XattrsOfUsers}, having("trusted.a", "1", "user.b", "2"), having("security.capability", "1", "user.b", "2"), Keep, WhyEqual},
		{"xattrs that both can have beside them", Options{Xattrs: mover.XattrsOfUsers}, having("security.selinux", "1", "user.b", "2"), having("user.b", "3"), Update, WhyXattrs},
		{"settings of a file system", Options{}, having("btrfs.compression", "zstd"), having("lustre.lov", "1"), Keep, WhyEqual},
		{"setuid of another owner, who can not be given", Options{TargetKeeps: mover.FactMode}, func(e *entry) { e.Mode = 0o4755 }, func(e *entry) { e.UID, e.Mode = 1, 0o755 }, Keep, WhyEqual},
		{"setuid of the same owner", Options{TargetKeeps: mover.FactMode}, func(e *entry) { e.Mode = 0o4755 }, func(e *entry) { e.Mode = 0o755 }, Update, WhyMode},
		{"setgid of another group, which can not be given", Options{TargetKeeps: mover.FactMode}, func(e *entry) { e.Mode = 0o2755 }, func(e *entry) { e.GID, e.Mode = 1, 0o755 }, Keep, WhyEqual},
		{"setuid without the owner", Options{Preserve: mover.FactMode | mover.FactMtime}, func(e *entry) { e.Mode = 0o4755 }, func(e *entry) { e.Mode = 0o755 }, Keep, WhyEqual},
		{"setgid with the owner alone", Options{Preserve: mover.FactMode | mover.FactMtime | mover.FactOwner}, func(e *entry) { e.Mode = 0o2755 }, func(e *entry) { e.Mode = 0o755 }, Keep, WhyEqual},
		{"setuid with the owner alone", Options{Preserve: mover.FactMode | mover.FactMtime | mover.FactOwner}, func(e *entry) { e.Mode = 0o4755 }, func(e *entry) { e.Mode = 0o755 }, Update, WhyMode},
		{"setgid of a directory", Options{TargetKeeps: mover.FactMode}, func(e *entry) { e.Kind, e.Mode = mover.Dir, 0o2755 }, func(e *entry) { e.Kind, e.GID, e.Mode = mover.Dir, 1, 0o755 }, Update, WhyMode},
		{"xattrs on one side, no ctime", Options{}, func(e *entry) { e.Known &^= mover.FactCtime }, walked, Compare, WhyFactsUnknown},
		{"xattrs that the target can not tell", Options{}, same, func(e *entry) { e.Known &^= mover.FactXattrs | mover.FactCtime }, Keep, WhyEqual},
		{"objects alike", Options{}, object("cache-control", "a", "tags", "b"), object("cache-control", "a", "tags", "b"), Keep, WhyEqual},
		{"a header", Options{}, object("cache-control", "a", "content-type", "b"), object("cache-control", "a", "content-type", "c"), Update, "content-type differs"},
		{"a header of the target alone", Options{}, object(), object("expires", "a"), Update, "expires differs"},
		{"metadata", Options{}, object("meta.team", "a"), object(), Update, "metadata team differs"},
		{"metadata that is not preserved", Options{Preserve: mover.FactTags}, object("meta.team", "a"), object(), Keep, WhyEqual},
		{"tags", Options{}, object("tags", "a"), object("tags", "b"), Update, "tags differ"},
		{"tags that the target does not keep", Options{TargetKeeps: ^mover.FactTags}, object("tags", "a"), object("tags", "b"), Keep, WhyEqual},
		{"a class is not made up for", Options{}, object("storage-class", "GLACIER"), object(), Keep, WhyEqual},
		{"a class, when verifying", Options{Classes: true}, object("storage-class", "GLACIER"), object(), Update, "storage-class differs"},
		{"a file tells nothing of an object", Options{}, same, object("content-type", "a"), Keep, WhyEqual},
		{"an object whose listing tells its time alone", Options{Preserve: mover.FactHeaders}, func(e *entry) { e.Brief, e.Known = true, mover.FactMtime }, object(), Compare, WhyFactsUnknown},
		{"a file without what the object has", Options{}, object("content-type", "a"), func(e *entry) { e.Known |= mover.FactXattrs }, Update, "content-type differs"},
		{"a file whose name tells the only header", Options{}, named("f.html", "content-type", "text/html", "tags", "b"), func(e *entry) { e.Known |= mover.FactXattrs | mover.FactTags; e.Object = tagged }, Keep, WhyEqual},
		{"a file whose name tells one of two headers", Options{}, named("f.html", "cache-control", "a", "content-type", "text/html"), func(e *entry) { e.Known |= mover.FactXattrs }, Update, "cache-control differs"},
		{"a file whose name tells another type", Options{}, named("f.html", "content-type", "text/css"), func(e *entry) { e.Known |= mover.FactXattrs }, Update, "content-type differs"},
		{"a file with the type by its name, of an object that has none", Options{}, named("f.html"), func(e *entry) { e.Known |= mover.FactXattrs }, Update, "content-type differs"},
		{"an object without a type, which its listing does not tell", Options{}, named("f.html"), func(e *entry) { e.Known &^= mover.FactXattrs }, Keep, WhyEqual},
		{"a file that states that there is nothing, at tags", Options{}, func(e *entry) { object()(e); e.Stated = true }, object("tags", "a"), Update, "tags differ"},
		{"a file that states that there is nothing, where a listing does not tell", Options{}, func(e *entry) { object()(e); e.Stated = true }, func(e *entry) { e.Known &^= mover.FactXattrs }, Compare, WhyFactsUnknown},
		{"tags of the object of a directory", Options{}, func(e *entry) { object("tags", "a")(e); e.Kind = mover.Dir }, func(e *entry) { object()(e); e.Kind = mover.Dir }, Update, "tags differ"},
		{"a manifest tells nothing of the object", Options{}, object("content-type", "a"), func(e *entry) { e.Known &^= mover.FactXattrs }, Compare, WhyFactsUnknown},
		{"a look tells nothing more", Options{looked: true}, object("content-type", "a"), func(e *entry) { e.Known &^= mover.FactXattrs }, Update, "content-type differs"},
	} {
		s, d := file(row.source), file(row.target)
		if op, why := row.o.decide(&s, &d); op != row.op || why != row.why {
			t.Errorf("%s: %v (%s), want %v (%s)", row.what, op, why, row.op, row.why)
		}
	}
}

// object is what an object has beside its bytes: names and values.
func object(pairs ...string) func(*mover.Entry) {
	return func(e *mover.Entry) {
		e.Known = e.Known&^mover.FactXattrs | mover.FactsOfObject
		for i := 0; i < len(pairs); i += 2 {
			e.Object = append(e.Object, mover.Attribute{Name: pairs[i], Value: pairs[i+1]})
		}
	}
}

var tagged = []mover.Attribute{{Name: "tags", Value: "b"}}

// named is an object with a name.
func named(name string, pairs ...string) func(*mover.Entry) {
	return func(e *mover.Entry) { e.Name = name; object(pairs...)(e) }
}

func TestDecideOtherKinds(t *testing.T) {
	link := func(target string) mover.Entry {
		return mover.Entry{Kind: mover.Symlink, Target: target, Mode: 0o777, Known: plainKnown}
	}
	device := func(rdev uint64) mover.Entry {
		return mover.Entry{Kind: mover.BlockDevice, Rdev: rdev, Known: plainKnown}
	}
	dir := func(nlink uint32, mode uint32) mover.Entry {
		return mover.Entry{Kind: mover.Dir, Nlink: nlink, Mode: mode, Known: plainKnown}
	}
	chmod := link("a")
	chmod.Mode = 0
	listed := func(e mover.Entry) mover.Entry {
		e.Brief = true
		return e
	}
	for _, row := range []struct {
		what           string
		source, target mover.Entry
		op             Op
		why            string
	}{
		{"link", link("a"), link("b"), Replace, WhyLinkTarget},
		{"mode of a link", link("a"), chmod, Keep, WhyEqual},
		{"a listed link", listed(link("a")), listed(link("a")), Keep, WhyEqual},
		{"a listed link, target not told here", listed(link("")), link("a"), Compare, WhyFactsUnknown},
		{"a listed link, target not told there", link("a"), listed(link("")), Compare, WhyFactsUnknown},
		{"listed links, no target told", listed(link("")), listed(link("")), Compare, WhyFactsUnknown},
		{"device", device(1), device(2), Replace, WhyDevice},
		{"directories have many links", dir(2, 0o700), dir(5, 0o755), Update, WhyMode},
	} {
		var o Options
		if op, why := o.decide(&row.source, &row.target); op != row.op || why != row.why {
			t.Errorf("%s: %v (%s), want %v (%s)", row.what, op, why, row.op, row.why)
		}
	}
}

func TestResolve(t *testing.T) {
	compare := Action{Op: Compare, Source: file(nil), Target: file(nil)}
	linked := compare
	linked.Link = "leader"
	crc := func(v uint64) mover.Entry {
		return file(func(e *mover.Entry) { e.Known |= mover.FactCRC; e.CRC = v })
	}
	other := func(k mover.Kind) mover.Entry { return mover.Entry{Name: "f", Kind: k} }
	for _, row := range []struct {
		what           string
		a              Action
		source, target mover.Entry
		op             Op
	}{
		{"still unknown", compare, file(nil), file(nil), Compare},
		{"equal", compare, crc(1), crc(1), Keep},
		{"different", compare, crc(1), crc(2), Replace},
		{"gone", compare, crc(1), mover.Entry{}, Create},
		{"a directory now", compare, crc(1), other(mover.Dir), Conflict},
		{"was a directory", compare, other(mover.Dir), crc(1), Create},
		{"hard link, equal", linked, crc(1), crc(1), Keep},
		{"hard link, different", linked, crc(1), crc(2), Link},
		{"hard link, gone", linked, crc(1), mover.Entry{}, Link},
		{"hard link, other facts, its leader has another inode now", linked, crc(1), file(func(e *mover.Entry) { e.Known |= mover.FactCRC; e.CRC, e.Mode, e.Nlink = 1, 0, 1 }), Link},
	} {
		o := Options{CompareBy: ByContent}
		if got := o.Resolve(row.a, row.source, row.target); got.Op != row.op {
			t.Errorf("%s: %v (%s)", row.what, got.Op, got.Why)
		}
	}
}

// TestStays: what stays at a target has the checksum that the target tells, and else that of the source, unless sizes alone were compared.
func TestStays(t *testing.T) {
	told, silent := file(func(e *mover.Entry) { e.CRC, e.Known = 2, e.Known|mover.FactCRC }), file(nil)
	source := file(func(e *mover.Entry) { e.CRC, e.Known, e.Mode = 1, e.Known|mover.FactCRC, 0o600 })
	for _, row := range []struct {
		name           string
		source, target mover.Entry
		by             CompareBy
		crc            uint64
		known          bool
	}{
		{"both tell it", source, told, ByTime, 2, true},
		{"the target tells it", silent, told, ByTime, 2, true},
		{"the source tells it", source, silent, ByTime, 1, true},
		{"neither tells it", silent, silent, ByTime, 0, false},
		{"by size, both tell it", source, told, BySize, 2, true},
		{"by size, the source tells it", source, silent, BySize, 0, false},
	} {
		o := Options{CompareBy: row.by}
		if got := o.Stays(row.source, &row.target); got.CRC != row.crc || got.Known.Has(mover.FactCRC) != row.known || got.Mode != row.source.Mode {
			t.Errorf("%s: checksum %d (%v), mode %o", row.name, got.CRC, got.Known.Has(mover.FactCRC), got.Mode)
		}
	}
}
