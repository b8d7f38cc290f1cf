package gpfs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// filesetQuota is what REST and -Y call the kind of quota that is meant here.
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
		found, quota = true, entryOf(o, "objectName", "objectId").quota(time.Now())
	}, "filesystems", fileSystem, "quotas")
	if err != nil {
		return false, lustre.Quota{}, err
	}
	return found, quota, nil
}

// quotaEntry is one entry of the quota files, whichever way it was asked for.
type quotaEntry struct {
	name          string
	id            uint32
	blocks, files held // of blocks, in bytes
}

type held struct {
	usage, inDoubt, soft, hard int64
	grace                      string
	strange                    bool // usage is told as negative
}

// entryOf reads an entry. The columns of its name and ID differ between the GUI and the commands.
func entryOf(r record, name, id string) quotaEntry {
	return quotaEntry{name: r.text(name), id: idOf(r, id), blocks: heldOf(r, "block", 1<<10), files: heldOf(r, "files", 1)}
}

// heldOf reads what is held of blocks or files, in units. Usage and what is in doubt can be
// negative while quotas are counted or after a node failed ("Checking quotas", IBM Storage
// Scale 5.2.0); that is taken as nothing.
func heldOf(r record, of string, unit int64) held {
	h := held{soft: amount(r, of+"Quota", unit), hard: amount(r, of+"Limit", unit), grace: r.text(of + "Grace")}
	if h.strange = r.number(of+"Usage") < 0; !h.strange {
		h.usage = amount(r, of+"Usage", unit)
	}
	if r.number(of+"InDoubt") > 0 {
		h.inDoubt = amount(r, of+"InDoubt", unit)
	}
	return h
}

// quota puts it into the words of package lustre. What is in doubt (granted to nodes, not
// yet accounted) counts as used: GPFS refuses what usage and doubt together do not leave.
func (e quotaEntry) quota(now time.Time) lustre.Quota {
	q := lustre.Quota{
		Project:   lustre.Project{ID: e.id, Name: e.name, Inherit: true},
		Limits:    lustre.Limits{SoftBytes: e.blocks.soft, HardBytes: e.blocks.hard, SoftFiles: e.files.soft, HardFiles: e.files.hard},
		UsedBytes: sum(e.blocks), UsedFiles: sum(e.files),
		BytesUntil: e.blocks.until(now), FilesUntil: e.files.until(now),
		CountsFiles: true, HasSoft: true,
	}
	if e.blocks.strange || e.files.strange {
		q.Doubt = "what it holds is told as less than nothing: the quotas have to be counted anew (mmcheckquota)"
	}
	return q
}

// sum is all that counts as used, or the largest number.
func sum(h held) int64 {
	if h.inDoubt > math.MaxInt64-h.usage {
		return math.MaxInt64
	}
	return h.usage + h.inDoubt
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
			"blockSoftLimit": inKiB(l.SoftBytes) + "K", "blockHardLimit": inKiB(l.HardBytes) + "K",
			"filesSoftLimit": strconv.FormatInt(l.SoftFiles, 10), "filesHardLimit": strconv.FormatInt(l.HardFiles, 10),
		},
	})
}

// inKiB writes bytes in KiB, rounded up: a limit is not made smaller than what was asked for.
func inKiB(bytes int64) string {
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
