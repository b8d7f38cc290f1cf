package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"datamove.dev/cmd/datamove/quota"
	"datamove.dev/lustre"
	"datamove.dev/lustre/cephfs"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// FileSystem asks the file system of an open directory what only it knows: quotas of
// projects, servers that are full by themselves, and how new files are striped.
func FileSystem(ctx context.Context, dir string, s *lustre.System, fd int) []Finding {
	l := &look{ctx, dir, s, fd}
	found := l.quota()
	if s.Layout != nil {
		c, err := s.Layout.Cluster(ctx, fd)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			found = append(found, warn(dir, "servers", why(err), "check the mount, and the servers: lfs check servers, lfs df"))
		default:
			found = append(found, l.targets(&c)...)
			found = append(found, l.layout(&c)...)
		}
	}
	if s.HSM != nil {
		found = append(found, pass(dir, "archive", "a reader of a released file waits for its content, without end and not to be killed where no copytool runs; "+
			"that can not be seen from a client, but on the servers: lctl get_param mdt.*.hsm.agents"))
	}
	return found
}

// look is what the checks of one file system have in common.
type look struct {
	ctx context.Context
	dir string
	s   *lustre.System
	fd  int
}

// name is the directory in a line of advice.
func (l *look) name() string { return mover.Printable(l.dir) }

// quota looks at the project of the directory.
func (l *look) quota() []Finding {
	const check = "quota"
	if l.s.Quota == nil {
		return nil
	}
	p, err := l.s.Quota.Project(l.ctx, l.fd)
	if err == nil && p.ID == 0 && p.Name == "" {
		return []Finding{pass(l.dir, check, "the folder is in no project: no limit holds")}
	}
	var q lustre.Quota
	if err == nil {
		q, err = l.s.Quota.Quota(l.ctx, l.fd, p)
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return []Finding{pass(l.dir, check, "none: "+err.Error())}
	case err != nil:
		return []Finding{warn(l.dir, check, why(err), "check the rights, and whether quotas are switched on")}
	}
	found := []Finding{l.left(&q)}
	limited := q.HardBytes > 0 || q.HardFiles > 0
	switch {
	case limited && !q.Enforced:
		found = append(found, warn(l.dir, check, "the limits are not enforced", quota.EnforceMend(l.s.Kind)))
	case limited && !q.RootToo && os.Geteuid() == 0:
		found = append(found, warn(l.dir, check, "root is not refused what is over the limit, and you are root", "copy as a user of the project, or through the service, which does"))
	}
	if q.Doubt != "" && l.s.Kind != lustre.IsCephFS { // which is never sure of the last seconds
		found = append(found, warn(l.dir, check, q.Doubt, "take its numbers for a guess until then"))
	}
	for _, t := range q.Targets {
		switch {
		case t.Pool && t.UsedBytes >= t.GrantedBytes:
			found = append(found, warn(l.dir, check, fmt.Sprintf("the project has %s in the pool %s, and may have %s there", units.Bytes(t.UsedBytes), t.Target, units.Bytes(t.GrantedBytes)),
				"write elsewhere: datamove layout set with another pool; or ask for more there"))
		case !t.Pool && t.GrantedBytes > 0 && t.UsedBytes > t.GrantedBytes:
			found = append(found, warn(l.dir, check, fmt.Sprintf("the project has %s on %s, which may hold %s of it", units.Bytes(t.UsedBytes), t.Target, units.Bytes(t.GrantedBytes)),
				"stripe large files over more OSTs: datamove layout set --advise "+l.name()))
		}
	}
	return found
}

// left is how much of a quota is left.
func (l *look) left(q *lustre.Quota) Finding {
	const mend = "remove what is not needed, or ask for more: datamove quota set; a copy that meets a full target waits for room"
	name := q.Project.Name
	if name == "" {
		name = fmt.Sprint(q.Project.ID)
	}
	bytes, byBytes := q.LeftBytes()
	files, byFiles := q.LeftFiles()
	var has []string
	if byBytes {
		has = append(has, units.Bytes(bytes))
	}
	if byFiles {
		has = append(has, units.Plural(files, "file", "files"))
	}
	detail := fmt.Sprintf("project %s holds %s, and has no limit", name, units.Bytes(q.UsedBytes))
	if len(has) > 0 {
		detail = fmt.Sprintf("project %s holds %s, and has %s left", name, units.Bytes(q.UsedBytes), strings.Join(has, " and "))
	}
	switch {
	case byBytes && bytes < leastRoom || byFiles && files < 16:
		return fail(l.dir, "quota", detail, mend)
	case byBytes && scarce(bytes, q.HardBytes) || byFiles && scarce(files, q.HardFiles):
		return warn(l.dir, "quota", detail, mend)
	case !q.BytesUntil.IsZero() || !q.FilesUntil.IsZero():
		return warn(l.dir, "quota", detail+", and is over its soft limit", mend)
	}
	return pass(l.dir, "quota", detail)
}

// scarce reports whether little is left of a limit.
func scarce(left, of int64) bool { return of > 0 && float64(left) < (1-quota.HighShare)*float64(of) }

// targets looks at the servers' parts of the file system.
func (l *look) targets(c *lustre.Cluster) []Finding {
	if len(c.OSTs)+len(c.MDTs) == 0 {
		return nil
	}
	var found []Finding
	room := 0
	for _, t := range append(slices.Clone(c.OSTs), c.MDTs...) {
		f := l.target(&t)
		if f.Status == Pass {
			if t.Kind == lustre.OST {
				room++
			}
			continue
		}
		found = append(found, f)
	}
	detail := fmt.Sprintf("%s %s: %d OSTs, %d MDTs", l.s.Name, c.Version, len(c.OSTs), len(c.MDTs))
	if pools := slices.Sorted(maps.Keys(c.Pools)); len(pools) > 0 {
		detail += ", pools " + strings.Join(pools, ", ")
	}
	if room == 0 && len(c.OSTs) > 0 {
		return append(found, warn(l.dir, "servers", detail+"; no OST has room", "make room, or ask for OSTs; a file system is full when its OSTs are, one by one"))
	}
	return append(found, pass(l.dir, "servers", detail))
}

// target looks at one of them. Each can be full, or gone, by itself.
func (l *look) target(t *lustre.Target) Finding {
	check, used := t.Kind.String(), fmt.Sprintf("%s is %.0f %% full", t.Name, 100*t.Used())
	inodes := lustre.Target{TotalBytes: t.TotalFiles, FreeBytes: t.FreeFiles}
	switch {
	case t.Inactive != "":
		return warn(l.dir, check, fmt.Sprintf("%s does not answer: %s", t.Name, t.Inactive), "a reader of a file with a stripe there waits, or gets an error: lfs check servers")
	case t.State&(lustre.ReadOnlyState|lustre.NoCreate|lustre.NoSpace|lustre.NoInodes) != 0:
		return warn(l.dir, check, t.Name+" takes no new objects", "lctl get_param osp.*.max_create_count, obdfilter.*.no_create on the servers; or it is full")
	case t.State&lustre.Degraded != 0:
		return warn(l.dir, check, t.Name+" is degraded", "look at its disks: a RAID is being rebuilt, perhaps")
	case t.Used() > quota.HighShare:
		return warn(l.dir, check, used, "make room there: lfs find DIR --ost INDEX -size +10G, and lfs migrate; new files go to others as long as others have room")
	case inodes.Used() > quota.HighShare:
		return warn(l.dir, check, fmt.Sprintf("%s has used %.0f %% of its inodes", t.Name, 100*inodes.Used()), "remove files, or pack small ones: no new file can be made there when they are used up")
	}
	return pass(l.dir, check, used)
}

// layout looks at how new files are striped.
func (l *look) layout(c *lustre.Cluster) []Finding {
	const check = "layout"
	d, err := l.s.Layout.Layout(l.ctx, l.fd)
	from := "the folder's own"
	if errors.Is(err, lustre.ErrInherited) {
		d, err, from = c.Default, nil, "that of the file system"
		if l.s.Kind == lustre.IsCephFS {
			from = "that of a folder above"
		}
	}
	if err != nil {
		return []Finding{warn(l.dir, check, why(err), "datamove layout show "+l.name())}
	}
	if len(d.Components) == 0 {
		return nil
	}
	for i := range d.Components {
		if pool := d.Components[i].Pool; pool != "" && len(c.Pools) > 0 && c.Pools[pool] == nil {
			return []Finding{warn(l.dir, check, fmt.Sprintf("new files are for the pool %s, which is not there: they get any OST", pool), "datamove layout set --advise "+l.name())}
		}
	}
	last := &d.Components[len(d.Components)-1]
	if l.s.Kind == lustre.IsCephFS && last.ObjectBytes > cephfs.MaxObjectBytes {
		return []Finding{warn(l.dir, check, fmt.Sprintf("new files have objects of %s, and OSDs take up to %s, if the site did not change it (osd_max_object_size): what is written behind that is lost, and its writers hang",
			units.Bytes(last.ObjectBytes), units.Bytes(cephfs.MaxObjectBytes)), "datamove layout set --stripe-size 4MiB "+l.name()+"; files that are there keep theirs until they are copied")}
	}
	if len(c.OSTs) > 1 && last.StripeCount == 1 && last.End == lustre.EOF {
		return []Finding{warn(l.dir, check, fmt.Sprintf("new files have one stripe however large they become (%s): each is as fast as one OST, and fills it", from),
			"for large files: datamove layout advise "+l.name()+", and datamove layout set --advise "+l.name())}
	}
	return []Finding{pass(l.dir, check, fmt.Sprintf("new files are striped by %s: %s", from, stripesText(&d)))}
}

// stripesText is a layout in words.
func stripesText(l *lustre.Layout) string {
	var parts []string
	for i := range l.Components {
		c := &l.Components[i]
		text := units.Plural(int64(c.StripeCount), "stripe", "stripes")
		switch {
		case c.Pattern == lustre.OnMDT:
			text = "on the MDT"
		case c.StripeCount == lustre.AllTargets:
			text = "as many stripes as there are targets"
		case c.StripeCount == 0:
			text = "the usual stripes"
		}
		if c.End != lustre.EOF {
			text += " up to " + units.Bytes(c.End)
		}
		if c.Pool != "" {
			text += " in " + c.Pool
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
