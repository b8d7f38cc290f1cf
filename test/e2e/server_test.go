package e2e

import (
	"cmp"
	"os"
	"testing"
	"time"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/crash/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Commands{"datamove": root.Main}) }

// embedded is the name of the server that runs when no other one is named.
const embedded = "versitygw"

func serverName() string {
	if os.Getenv("DATAMOVE_E2E_S3") == "" {
		return embedded
	}
	return cmp.Or(os.Getenv("DATAMOVE_E2E_NAME"), "a server without a name")
}

// profiles is what is known of servers, by probing them by hand: versitygw 1.8.0,
// MinIO of February 2026, Ceph RGW 16.2.15 and rclone 1.75.1. What is false here
// is answered with 200 all the same. Ceph refuses a PUT If-Match even where it holds,
// unless the ETag has no quotes.
var profiles = map[string]s3.Profile{
	embedded: {
		ChecksPut: true, ChecksPart: true, ChecksWhole: true, TellsCRC: true,
		CreatesOnce: true, MatchesPut: true, MatchesGet: true, MatchesDrop: true, MatchesCopy: true, CopiesParts: true,
		KeepsMarkers: true, ListsUploads: true, GuardsWhole: true, KeepsHeaders: true, KeepsTags: true, TagsCopies: true, CountsTags: true, KeepsClass: true, SegmentBytes: 255,
	},
	"minio": {
		ChecksPut: true, ChecksPart: true, ChecksWhole: true, TellsCRC: true,
		CreatesOnce: true, MatchesPut: true, MatchesGet: true, MatchesCopy: true, CopiesParts: true,
		KeepsMarkers: true, GuardsWhole: true, KeepsHeaders: true, KeepsTags: true, TagsCopies: true, CountsTags: true, SegmentBytes: 255,
	},
	"ceph":   {CreatesOnce: true, MatchesPut: true, BareMatch: true, MatchesGet: true, CopiesParts: true, KeepsMarkers: true, Twins: true, ListsUploads: true, KeepsHeaders: true, KeepsTags: true, CountsTags: true},
	"rclone": {ListsUploads: true, KeepsHeaders: true, KeepsClass: true, SegmentBytes: 255},
}

// protocols runs a test over http and over https.
func protocols(t *testing.T, test func(t *testing.T, server *s3test.Server)) {
	t.Run("http", func(t *testing.T) { test(t, s3test.Start(t, false)) })
	t.Run("https", func(t *testing.T) { test(t, s3test.Start(t, true)) })
}

// TestServer: what a server does wrongly is found, by either client.
func TestServer(t *testing.T) {
	want, known := profiles[serverName()]
	if !known {
		t.Skipf("nothing is known of %s", serverName())
	}
	protocols(t, func(t *testing.T, server *s3test.Server) {
		for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
			o := server.Options(t)
			o.Client = client
			got := s3test.Open(t, o).Profile()
			got.Format, got.Probed, got.Address, got.Server = 0, time.Time{}, "", ""
			if got != want {
				t.Errorf("%s finds\n\t%+v, want\n\t%+v", client, got, want)
			}
		}
	})
}
