package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// site is the tiers of the job with their secrets.
func (w *worker) site() backend.Resolver {
	s := backend.Resolver{Tiers: map[string]config.Tier{}, Keys: map[string]string{}, Closed: w.job.GetClosed(), Roots: w.job.GetRoots(), Mounts: w.job.GetMounts(), KeepFree: w.job.GetKeepFree(), FileSystem: w.o.FileSystem}
	for _, t := range w.job.GetTiers() {
		s.Tiers[t.GetName()] = tierOf(t)
		if t.GetKeys() != "" {
			s.Keys[t.GetName()] = t.GetKeys()
		}
	}
	s.Renew = w.agent.keys
	return s
}

// open opens a backend, and has its calls counted. It is an engine.Opener.
func (w *worker) open(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	s := w.site()
	s.Strict = w.strict(l)
	return w.around(s.Open)(ctx, l, o)
}

// around puts around an opener what this worker has there.
func (w *worker) around(open engine.Opener) engine.Opener {
	if w.o.Around != nil {
		open = w.o.Around(open)
	}
	return w.counts.metered(open)
}

func tierOf(t *agentv1.TierAccess) config.Tier {
	out := config.Tier{Level: t.GetLevel(), Path: t.GetPath()}
	if t.GetS3() {
		out.S3 = &config.S3{
			Endpoint: t.GetEndpoint(), Bucket: t.GetBucket(), Prefix: t.GetPrefix(), Region: t.GetRegion(),
			Credentials: t.GetCredentials(), CA: t.GetCa(), Client: t.GetClient(),
			Encryption: t.GetEncryption(), KMSKey: t.GetKmsKey(), RequireRegion: t.GetRequireRegion(),
		}
		if t.GetPathStyleSet() {
			style := t.GetPathStyle()
			out.S3.PathStyle = &style
		}
	}
	return out
}

// resolve makes a tier's location the path or bucket that it is.
func (w *worker) resolve(l location.Location) (location.Location, error) {
	resolved, ok := w.site().Resolve(l)
	if !ok || resolved.IsDataset() {
		return l, fmt.Errorf("%w: %s is in no tier of this job", mover.ErrUsage, l)
	}
	return resolved, nil
}

// at is the path or bucket that a location on the wire is.
func (w *worker) at(text string) (location.Location, error) {
	l, err := convert.Locate(text)
	if err == nil {
		l, err = w.resolve(l)
	}
	return l, err
}

// request is the job as a local request.
func (w *worker) request() (engine.Request, error) {
	r, err := convert.Request(w.job.GetSpec(), w.resolve)
	if err != nil {
		return r, err
	}
	r.StateDir, r.Logger, r.Observer = w.job.GetStateDir(), w.log, w.state
	return r, nil
}

// removal is the job as a request to remove its target.
func (w *worker) removal() (engine.Request, error) {
	r := engine.Request{StateDir: w.job.GetStateDir(), Logger: w.log, Observer: w.state}
	target, err := w.at(w.job.GetSpec().GetTarget())
	r.Target = target
	r.MaxDelete = convert.MaxDelete(w.job.GetSpec().GetOptions())
	return r, err
}

// FormatDraft writes a kept draft as one text, ParseDraft reads it.
func FormatDraft(d *agentv1.KeptDraft) string {
	return strconv.Itoa(int(d.GetPair())) + " " + d.GetToken()
}

// ParseDraft is the inverse of FormatDraft.
func ParseDraft(text string) (*agentv1.KeptDraft, error) {
	pair, token, ok := strings.Cut(text, " ")
	n, err := strconv.ParseInt(pair, 10, 32)
	if !ok || err != nil || n < 0 || token == "" {
		return nil, fmt.Errorf("%w: not a kept draft", mover.ErrUsage)
	}
	return &agentv1.KeptDraft{Pair: int32(n), Token: token}, nil
}
