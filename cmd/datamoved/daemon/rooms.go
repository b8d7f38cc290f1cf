package daemon

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/lustre"
	"datamove.dev/lustre/detect"
	"datamove.dev/mover/location"
)

// partsTime is how long servers may take to say how full they are.
const partsTime = 5 * time.Second

// roomParts is what of the file system at the path of a tier can be full while the rest is not: its OSTs, their pools, and the quotas of projects that have a
// directory there. What does not answer is left out.
func (h *host) roomParts(path string) (parts []*agentv1.RoomPart) {
	ctx, cancel := context.WithTimeout(context.Background(), partsTime)
	defer cancel()
	fs, err := detect.Open(path, detect.Options{})
	if err != nil {
		return nil
	}
	defer fs.Close()
	if fs.System.Usage != nil {
		targets, err := fs.System.Usage.Targets(ctx, fs.FD())
		if err != nil {
			h.log.Debug("servers do not say how full they are", "path", path, "err", err)
		}
		parts = partsOf(targets)
	}
	for name, dir := range h.projectsAt(path) {
		if p := quotaOf(ctx, name, dir); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// partsOf are OSTs, and pools: those that are told of, and of a Lustre what their OSTs have together. What does not answer is left out.
func partsOf(targets []lustre.Target) (parts []*agentv1.RoomPart) {
	pools := map[string]*agentv1.RoomPart{}
	add := func(pool string, t *lustre.Target) {
		p := pools[pool]
		if p == nil {
			p = &agentv1.RoomPart{Kind: "pool", Name: pool}
			pools[pool] = p
			parts = append(parts, p)
		}
		p.TotalBytes, p.FreeBytes, p.TotalFiles, p.FreeFiles = p.TotalBytes+t.TotalBytes, p.FreeBytes+t.FreeBytes, p.TotalFiles+t.TotalFiles, p.FreeFiles+t.FreeFiles
	}
	for i := range targets {
		t := &targets[i]
		switch {
		case t.Inactive != "":
		case t.Kind == lustre.InPool:
			add(t.Name, t)
		case t.Kind == lustre.OST:
			parts = append(parts, &agentv1.RoomPart{Kind: "ost", Name: strconv.Itoa(t.Index), TotalBytes: t.TotalBytes, FreeBytes: t.FreeBytes, TotalFiles: t.TotalFiles, FreeFiles: t.FreeFiles})
			for _, pool := range t.Pools {
				add(pool, t)
			}
		}
	}
	return parts
}

// projectsAt are the projects of the configuration that have a directory in a tier with that path, and where.
func (h *host) projectsAt(path string) map[string]string {
	conf, dirs := h.live.config.Load(), map[string]string{}
	for name, project := range conf.Projects {
		for _, root := range project.Roots {
			l, err := location.Parse(root)
			if err != nil {
				continue
			}
			if dir := filepath.Join(path, l.Path); l.InTier() && conf.Tiers[l.Tier].Path == path {
				dirs[name] = dir
			} else if l.IsPath() && strings.HasPrefix(l.Path, path+"/") {
				dirs[name] = l.Path
			}
		}
	}
	return dirs
}

// quotaOf is how full the quota of a directory is; nil where there is none.
func quotaOf(ctx context.Context, name, dir string) *agentv1.RoomPart {
	fs, err := detect.Open(dir, detect.Options{})
	if err != nil {
		return nil
	}
	defer fs.Close()
	if fs.System.Quota == nil {
		return nil
	}
	project, err := fs.System.Quota.Project(ctx, fs.FD())
	if err != nil {
		return nil
	}
	q, err := fs.System.Quota.Quota(ctx, fs.FD(), project)
	if err != nil || q.HardBytes == 0 && q.HardFiles == 0 {
		return nil
	}
	return &agentv1.RoomPart{Kind: "project", Name: name, TotalBytes: q.HardBytes, FreeBytes: max(0, q.HardBytes-q.UsedBytes), TotalFiles: q.HardFiles, FreeFiles: max(0, q.HardFiles-q.UsedFiles)}
}
