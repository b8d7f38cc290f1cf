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
)

// resolverOf is the tiers of an order with their secrets.
func resolverOf(order *agentv1.Job, renew func(ctx context.Context, tier string) (string, error), fs func(dir int) (mover.FileSystem, error)) backend.Resolver {
	s := backend.Resolver{Tiers: map[string]config.Tier{}, Keys: map[string]string{}, Closed: order.GetClosed(), Roots: order.GetRoots(), Mounts: order.GetMounts(), KeepFree: order.GetKeepFree(), FileSystem: fs}
	for _, t := range order.GetTiers() {
		s.Tiers[t.GetName()] = tierOf(t)
		if t.GetKeys() != "" {
			s.Keys[t.GetName()] = t.GetKeys()
		}
	}
	s.Renew = renew
	return s
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
