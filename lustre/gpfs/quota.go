package gpfs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// kinds of quotas, as REST and -Y name them.
const filesetQuota = "FILESET"

// FilesetQuota returns the limits of a fileset and what it holds; found is false when there is no
// entry: nothing was limited, or quotas are off.
func (c *Client) FilesetQuota(ctx context.Context, fileSystem, name string) (found bool, quota lustre.Quota, err error) {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name)); err != nil {
		return false, quota, err
	}
	// The filter takes users and groups of that name as well.
	err = c.list(ctx, "quotas", "objectName="+name, func(o object) {
		if o.text("quotaType") != filesetQuota || o.text("objectName") != name || found {
			return
		}
		found, quota = true, quotaOf(o)
	}, "filesystems", fileSystem, "quotas")
	if err != nil {
		return false, lustre.Quota{}, err
	}
	return found, quota, nil
}

func quotaOf(o object) lustre.Quota {
	entry := quotaEntry{
		name: o.text("objectName"), id: o.count("objectId"),
		blocks: held{o.kib("blockUsage"), o.kib("blockInDoubt"), o.kib("blockQuota"), o.kib("blockLimit"), o.text("blockGrace")},
		files:  held{o.count("filesUsage"), o.count("filesInDoubt"), o.count("filesQuota"), o.count("filesLimit"), o.text("filesGrace")},
	}
	return entry.quota(time.Now())
}

// quotaEntry is one entry of the quota files, whichever way it was asked for.
type quotaEntry struct {
	name          string
	id            int64
	blocks, files held // of blocks, in bytes
}

type held struct {
	usage, inDoubt, soft, hard int64
	grace                      string
}

// quota puts it into the words of package lustre. What is in doubt (granted to nodes, not
// yet accounted) counts as used: GPFS refuses what usage and doubt together do not leave.
func (e quotaEntry) quota(now time.Time) lustre.Quota {
	q := lustre.Quota{
		Project:     lustre.Project{ID: uint32(min(e.id, 1<<32-1)), Name: e.name, Inherit: true},
		Limits:      lustre.Limits{SoftBytes: e.blocks.soft, HardBytes: e.blocks.hard, SoftFiles: e.files.soft, HardFiles: e.files.hard},
		UsedBytes:   e.blocks.usage + min(e.blocks.inDoubt, 1<<62),
		UsedFiles:   e.files.usage + min(e.files.inDoubt, 1<<62),
		CountsFiles: true,
		HasSoft:     true,
	}
	q.UsedBytes, q.UsedFiles = max(q.UsedBytes, e.blocks.usage), max(q.UsedFiles, e.files.usage) // sums that do not fit
	q.BytesUntil, q.FilesUntil = e.blocks.until(now), e.files.until(now)
	return q
}

var graceUnits = map[string]time.Duration{
	"day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
}

// until is when a passed soft limit becomes a hard one: the text is "none", "expired" or
// "6 days". A text that is not known counts as expired where the limit is passed.
func (h held) until(now time.Time) time.Time {
	passed := h.soft > 0 && h.usage > h.soft
	grace := strings.ToLower(strings.TrimSpace(h.grace))
	if grace == "none" || grace == "" || grace == "-" {
		return time.Time{}
	}
	number, unit, _ := strings.Cut(grace, " ")
	n, err := strconv.ParseInt(number, 10, 32)
	if per := graceUnits[strings.TrimSuffix(strings.TrimSpace(unit), "s")]; err == nil && per > 0 && n >= 0 && n < 100_000 {
		return now.Add(time.Duration(n) * per)
	}
	if passed || grace == "expired" {
		return now
	}
	return time.Time{}
}

// SetFilesetQuota sets the limits of a fileset, all four. Bytes are rounded up to KiB.
func (c *Client) SetFilesetQuota(ctx context.Context, fileSystem, name string, l lustre.Limits) error {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name), checkLimits(l)); err != nil {
		return err
	}
	return c.change(ctx, call{
		method: http.MethodPost, path: []string{"filesystems", fileSystem, "quotas"},
		body: map[string]any{
			"operationType": "setQuota", "quotaType": "fileset", "objectName": name,
			"blockSoftLimit": kib(l.SoftBytes) + "K", "blockHardLimit": kib(l.HardBytes) + "K",
			"filesSoftLimit": strconv.FormatInt(l.SoftFiles, 10), "filesHardLimit": strconv.FormatInt(l.HardFiles, 10),
		},
	})
}

// kib writes bytes in KiB, rounded up: a limit is not made smaller than what was asked for.
func kib(bytes int64) string {
	n := bytes >> 10
	if bytes&1023 != 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}

func checkLimits(l lustre.Limits) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrName, err)
	}
	return nil
}
