package cli

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/checksum"
)

// rawKey is a command of scripts: rawkey PREFIX puts an object below a prefix of the bucket of $BUCKET, with a key that leads to no name: a line feed is in it.
func rawKey(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 1 {
		ts.Fatalf("usage: rawkey prefix")
	}
	keys := ts.MkAbs("rawkey.env")
	text := "AWS_ACCESS_KEY_ID=" + ts.Getenv("AWS_ACCESS_KEY_ID") + "\nAWS_SECRET_ACCESS_KEY=" + ts.Getenv("AWS_SECRET_ACCESS_KEY") + "\n"
	ts.Check(os.WriteFile(keys, []byte(text), 0o600))
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(ts.Getenv("BUCKET"), "s3://"), "/")
	ctx := context.Background()
	p, err := s3.Open(ctx, s3.Options{
		Endpoint: ts.Getenv("AWS_ENDPOINT_URL_S3"), Bucket: bucket, CABundle: ts.Getenv("AWS_CA_BUNDLE"), Credentials: "file:" + keys,
		Prefix: prefix + "/" + args[0], StateDir: ts.MkAbs("rawkey"), Writable: true,
	})
	ts.Check(err)
	defer p.Close()
	content := []byte("raw\n")
	e := mover.Entry{Name: "d/\x01key:n%0Al", Key: "d/n\nl", Kind: mover.File, Size: int64(len(content))}
	d, err := p.Draft(ctx, e, mover.Hints{By: mover.WriterID{Task: "by hand"}})
	ts.Check(err)
	part := mover.Part{Length: e.Size}
	r, err := d.WritePart(ctx, part, &whole{Reader: bytes.NewReader(content), sum: checksum.Update(0, content)})
	ts.Check(err)
	r.Part, r.CRC = part, checksum.Update(0, content)
	ts.Check(d.Finish(ctx, e, []mover.Receipt{r}))
	ts.Check(p.Publish(ctx, []mover.Draft{d})[0].Err)
}

// whole is a mover.Feed of what is in memory.
type whole struct {
	*bytes.Reader
	sum uint64
}

func (*whole) Hole() int64   { return 0 }
func (w *whole) Sum() uint64 { return w.sum }
func (w *whole) Rewind() error {
	_, err := w.Seek(0, 0)
	return err
}
