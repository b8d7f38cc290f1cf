package root

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
)

// try runs a command line and returns what it printed.
func try(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	home := t.TempDir()
	a := cli.App{In: strings.NewReader(""), Out: &out, Err: &err, Env: func(key string) string {
		if key == "HOME" {
			return home
		}
		return ""
	}}
	code = cli.ExitCode(execute(context.Background(), &a, args))
	return code, out.String(), err.String()
}

// TestBadWords ends every wrong command line with 2, and names what is wrong in it.
func TestBadWords(t *testing.T) {
	for _, row := range []struct {
		args string
		want string
	}{
		{"frobnicate", `unknown command "frobnicate"`},
		{"copi /a /b", "copy"}, // what was probably meant
		{"copy", "want SRC and DST, or --into DIR and sources; found 0 arguments"},
		{"copy /a", "found 1 argument"},
		{"copy --into /d", "want sources to copy there"},
		{"copy --nope /a /b", "unknown flag: --nope"},
		{"copy --jobs many /a /b", `invalid argument "many" for "--jobs" flag: want a number from 1 to 4096`},
		{"copy --jobs -1 /a /b", "want a number from 1 to 4096"},
		{"copy --bwlimit fast /a /b", "want a rate, like 100MiB/s"},
		{"copy --memory 1MiB /a /b", "want 16.0 MiB at least"},
		{"copy --memory lots /a /b", "want a number with a unit"},
		{"copy --preserve mode,colour /a /b", `"colour" is not one of mode, owner`},
		{"copy --verify maybe /a /b", "must be one of written, server, read"},
		{"copy --reflink always /a /b", "must be one of auto, never"},
		{"copy --full panic /a /b", "must be one of wait, fail"},
		{"copy --exclude [ /a /b", "a bracket, brace or backslash is not closed"},
		{"copy --null /a /b", "--null says how --files-from is read"},
		{"copy -o xml /a /b", "must be one of table, json"},
		{"copy -v -q /a /b", "exclude each other"},
		{"copy --log-level loud /a /b", "must be debug, info, warn or error"},
		{"copy --detach /a /b", "--detach: no service configured"},
		{"copy --delete /a /b", "unknown flag: --delete"},
		{"sync --max-delete 5 /a /b", "--max-delete bounds --delete"},
		{"copy --checksum --size-only /a /b", "--checksum and --size-only exclude each other"},
		{"sync --size-only --checksum /a /b", "--checksum and --size-only exclude each other"},
		{"sync --delete --max-delete few /a /b", "want a number of entries"},
		{"sync --delete --max-delete 101% /a /b", "want a percentage from 0% to 100%"},
		{"sync --backup-dir s3://bkt/old /a /b", "must be a folder on the file system of the target"},
		{"sync --backup-dir other:old /a s3://bkt/b", `there is no tier "other"`},
		{"sync --backup-dir /old /a s3://bkt/b", "must be a prefix in the bucket of the target"},
		{"sync --backup-dir ../old /a s3://bkt/b", "must be a prefix in the bucket of the target"},
		{"sync --backup-dir file:///old /a s3://bkt/b", "must be a prefix in the bucket of the target"},
		{"sync --backup-dir s3://another/old /a s3://bkt/b", "must be a prefix in the bucket of the target"},
		{"sync --backup-dir s3://bkt /a s3://bkt/b", "must be a prefix in the bucket of the target"},
		{"verify /a", "want SRC and DST"},
		{"verify --manifest m /a /b", "want one location"},
		{"verify --manifest m --write-manifest n /a", "exclude each other"},
		{"copy nowhere:x /b", `there is no tier "nowhere": no configuration was found`},
		{"copy s3://x /b", "a bucket has 3 to 255"},
		{"copy http://host/x /b", "the schemes are file:// and s3://"},
		{"ls", "want one location"},
		{"ls -o csv /a", "must be one of table, json"},
		{"du", "want one location or more"},
		{"rm --max-delete 5% -r ./x", ""},
		{"config frob", ""},
		{"audit verify --head 7:00 /a", `invalid argument "7:00" for "--head" flag: want SEQUENCE:HASH`},
		{"audit verify /a /b", "accepts at most 1 arg(s), received 2"},
		{"audit verify -o name /a", "must be one of table, json, yaml"},
		{"version extra", "unknown command"},
	} {
		code, out, said := try(t, strings.Fields(row.args)...)
		if row.want == "" {
			continue
		}
		if code != cli.ExitUsage || out != "" || !strings.Contains(said, row.want) {
			t.Errorf("datamove %s: exit %d, %s%swant %s", row.args, code, out, said, row.want)
		}
	}
}

func TestUsageErrorsSayWhatToTry(t *testing.T) {
	_, _, said := try(t, "copy", "/a")
	want := "datamove: copy: want SRC and DST, or --into DIR and sources; found 1 argument\ntry: datamove copy --help\n"
	if said != want {
		t.Errorf("%q\nwant %q", said, want)
	}
}

func TestNoWordsIsHelp(t *testing.T) {
	code, out, said := try(t)
	if code != 0 || said != "" || strings.Count(out, "\n  datamove ") < 2 {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
}
