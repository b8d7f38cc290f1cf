package manifest

import (
	"bytes"
	"math"
	"strconv"

	"datamove.dev/mover"
)

// record is one line: an entry, and its group of hard links.
type record struct {
	scan
	entry   mover.Entry
	link    string
	hasLink bool
	links   uint32
	seen    uint32 // which fields were there
}

// fields are the keys of a line, each with what reads it. The keys that end in "64"
// share the bit of those without.
var fields = map[string]struct {
	bit  uint32
	read func(*record)
}{
	"name":      {1 << 0, func(r *record) { r.entry.Name = r.text() }},
	"name64":    {1 << 0, func(r *record) { r.entry.Name = string(r.base64()) }},
	"kind":      {1 << 1, (*record).readKind},
	"size":      {1 << 2, func(r *record) { r.entry.Size = r.length() }},
	"mode":      {1 << 3, func(r *record) { r.entry.Mode = uint32(r.based(8, 4, 12)); r.knows(mover.FactMode) }},
	"uid":       {1 << 4, func(r *record) { r.entry.UID = uint32(r.number(math.MaxUint32)); r.knows(mover.FactOwner) }},
	"gid":       {1 << 5, func(r *record) { r.entry.GID = uint32(r.number(math.MaxUint32)); r.knows(mover.FactGroup) }},
	"mtime":     {1 << 6, func(r *record) { r.entry.Mtime = r.time(); r.knows(mover.FactMtime) }},
	"atime":     {1 << 7, func(r *record) { r.entry.Atime = r.time(); r.knows(mover.FactAtime) }},
	"ctime":     {1 << 8, func(r *record) { r.entry.Ctime = r.time(); r.knows(mover.FactCtime) }},
	"rdev":      {1 << 9, func(r *record) { r.entry.Rdev = r.number(math.MaxUint64) }},
	"target":    {1 << 10, func(r *record) { r.entry.Target = r.text() }},
	"target64":  {1 << 10, func(r *record) { r.entry.Target = string(r.base64()) }},
	"crc64nvme": {1 << 11, func(r *record) { r.entry.CRC = r.based(16, 16, 64); r.knows(mover.FactCRC) }},
	"etag":      {1 << 12, func(r *record) { r.entry.ETag = r.text() }},
	"versionid": {1 << 13, func(r *record) { r.entry.Version = r.text() }},
	"link":      {1 << 14, func(r *record) { r.link, r.hasLink = r.text(), true }},
	"link64":    {1 << 14, func(r *record) { r.link, r.hasLink = string(r.base64()), true }},
	"links":     {1 << 15, func(r *record) { r.links = uint32(r.number(math.MaxUint32)) }},
	"xattrs":    {1 << 16, (*record).readXattrs},
	"data":      {1 << 17, (*record).readData},
}

// bits of fields that only some kinds have.
var (
	ofFiles    = fields["size"].bit | fields["crc64nvme"].bit | fields["data"].bit
	ofDevices  = fields["rdev"].bit
	ofSymlinks = fields["target"].bit
	ofLinks    = fields["link"].bit | fields["links"].bit
)

// decode reads a line into r, and says what is wrong with it.
func (r *record) decode(line []byte) (why string) {
	*r = record{scan: scan{line: line}}
	r.object(r.field)
	r.end()
	if r.why != "" {
		return r.why
	}
	if need := fields["name"].bit | fields["kind"].bit; r.seen&need != need {
		return "the name or the kind is missing"
	}
	if why := r.unfitting(); why != "" {
		return why
	}
	return problem(&r.entry)
}

func (r *record) field(key string) {
	f, ok := fields[key]
	if !ok {
		r.fail("the field " + strconv.Quote(key) + " is not known in version 1")
		return
	}
	if r.seen&f.bit != 0 {
		r.fail("the field " + strconv.Quote(key) + " is there twice")
		return
	}
	r.seen |= f.bit
	f.read(r)
}

// unfitting looks for fields that the kind does not have, or misses.
func (r *record) unfitting() string {
	has, must := uint32(0), uint32(0)
	switch r.entry.Kind {
	case mover.File:
		has, must = ofFiles, fields["size"].bit
	case mover.Symlink:
		has, must = ofSymlinks, ofSymlinks
	case mover.CharDevice, mover.BlockDevice:
		has, must = ofDevices, ofDevices
	}
	if r.entry.Kind != mover.Dir {
		has |= ofLinks
	}
	all := ofFiles | ofDevices | ofSymlinks | ofLinks
	switch {
	case r.seen&all&^has != 0:
		return "it has a field that this kind of entry has not"
	case r.seen&must != must:
		return "a field of this kind of entry is missing"
	case r.seen&fields["links"].bit != 0 && r.links < 2, r.hasLink && r.links < 2:
		return "a hard link with less than two names"
	}
	return ""
}

func (r *record) knows(f mover.Facts) { r.entry.Known |= f }

func (r *record) readKind() {
	kind, ok := mover.ParseKind(r.text())
	if !ok {
		r.fail("the kind is not known")
	}
	r.entry.Kind = kind
}

// time reads decimal seconds with nine digits behind the point.
func (r *record) time() mover.Time {
	text := r.bytes()
	point := len(text) - 10
	if point < 1 || text[point] != '.' {
		r.fail("a time is not decimal seconds with nine digits behind the point")
		return mover.Time{}
	}
	digits, negative := bytes.CutPrefix(text[:point], []byte{'-'})
	sec, err1 := strconv.ParseUint(string(digits), 10, 64)
	nsec, err2 := strconv.ParseUint(string(text[point+1:]), 10, 30)
	most := uint64(math.MaxInt64)
	if negative && nsec == 0 {
		most++
	}
	if err1 != nil || err2 != nil || sec > most || len(digits) > 1 && digits[0] == '0' || negative && sec == 0 && nsec == 0 {
		r.fail("a time is not a number that can be")
		return mover.Time{}
	}
	t := mover.Time{Sec: int64(sec), Nsec: int32(nsec)}
	if negative {
		t.Sec = -t.Sec
		if t.Nsec > 0 {
			t.Sec, t.Nsec = t.Sec-1, second-t.Nsec
		}
	}
	return t
}

func (r *record) readXattrs() {
	all := []mover.Xattr{}
	r.array(func() {
		var x mover.Xattr
		count := 0
		r.object(func(key string) {
			count++
			switch key {
			case "name":
				x.Name = r.text()
			case "name64":
				x.Name = string(r.base64())
			case "value":
				x.Value = r.base64()
			default:
				r.fail("an extended attribute has a field that is not known")
			}
		})
		if count != 2 || x.Value == nil {
			r.fail("an extended attribute has not a name and a value")
		}
		all = append(all, x)
	})
	r.entry.SetXattrs(all)
	if r.entry.Known&mover.FactsOfObject == 0 || len(r.entry.Xattrs) > 0 { // else it is an object, of which no others are known
		r.knows(mover.FactXattrs)
	}
}

func (r *record) readData() {
	r.knows(mover.FactHoles)
	r.array(func() {
		var s mover.Segment
		r.expect('[')
		s.Start = r.length()
		r.expect(',')
		s.End = r.length()
		r.expect(']')
		if len(r.entry.Data) == maxSegments {
			r.fail("there are too many data segments")
		}
		r.entry.Data = append(r.entry.Data, s)
	})
}
