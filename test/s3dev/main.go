// Command s3dev serves a folder as an S3 store, for tests and demonstrations.
//
// It is versitygw, embedded, in a module of its own: its dependencies are many,
// and no binary that we ship imports it. What Amazon S3 refuses, it refuses (strict). Each folder directly below --dir is a
// bucket. When the server is ready it prints one line per fact to standard output:
//
//	endpoint http://127.0.0.1:41233
//	ca /tmp/s3dev-123/ca.pem          (with --tls: the certificate to trust)
//	ready
//
// It ends on SIGINT, on SIGTERM, and, with --parent, when its standard input
// ends: so it never outlives the test that started it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

type options struct {
	listen, dir    string
	access, secret string
	buckets        string
	domain         string
	tls, parent    bool
	versions, kms  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "s3dev:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("s3dev", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address; port 0 takes a free one")
	flags.StringVar(&o.dir, "dir", "", "folder to serve; its folders are the buckets")
	flags.StringVar(&o.access, "access", "datamove", "access key")
	flags.StringVar(&o.secret, "secret", "datamove-secret", "secret key")
	flags.StringVar(&o.buckets, "buckets", "test", "buckets to make, separated by commas")
	flags.StringVar(&o.domain, "domain", "", "name of the store: buckets are host names below it, too, and the certificate is for both")
	flags.BoolVar(&o.tls, "tls", false, "serve https with a certificate made now")
	flags.BoolVar(&o.versions, "versions", false, "keep all versions of objects")
	flags.BoolVar(&o.kms, "kms", false, "give objects ETags as if they were encrypted by KMS")
	flags.BoolVar(&o.parent, "parent", false, "end when standard input ends")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.dir == "" {
		return o, errors.New("--dir is missing: the folder to serve")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.parent {
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	if err := makeBuckets(o); err != nil {
		return err
	}
	return serve(ctx, o, stdout)
}

func serve(ctx context.Context, o options, stdout io.Writer) error {
	addr, err := freeAddress(o.listen)
	if err != nil {
		return err
	}
	config := &embedgw.Config{
		RootUserAccess: o.access, RootUserSecret: o.secret, Region: "us-east-1",
		Ports: []string{addr}, MaxConnections: 4096, MaxRequests: 2048,
		MultipartMaxParts: 10000, KeepAlive: true, Quiet: true, VirtualDomain: o.domain,
	}
	lines := "endpoint http://" + addr + "\n"
	if o.tls {
		ca, err := makeCertificate(config, o.domain)
		if err != nil {
			return err
		}
		defer os.RemoveAll(filepath.Dir(ca))
		lines = "endpoint https://" + addr + "\nca " + ca + "\n"
	}
	backend, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("serve %s: %w", o.dir, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- embedgw.RunVersityGW(ctx, backend, config) }()
	if err := waitReady(ctx, addr, ended); err != nil {
		return err
	}
	fmt.Fprint(stdout, lines+"ready\n")
	err = <-ended
	if ctx.Err() != nil {
		return nil // asked to end
	}
	return err
}

// open opens the buckets.
func open(ctx context.Context, o options) (strict, error) {
	opts := posix.PosixOpts{
		CopyObjectThreshold: 5 << 30, // the limit of S3
		ForceNoTmpFile:      true,    // a link without a name replaces nothing: the store would give it a name that is listed for an instant
	}
	if o.versions {
		opts.VersioningDir = filepath.Clean(o.dir) + ".versions"
		if err := os.MkdirAll(opts.VersioningDir, 0o755); err != nil {
			return strict{}, err
		}
	}
	var storer meta.MetadataStorer = meta.XattrMeta{}
	if o.kms {
		storer = etags{}
	}
	store, err := posix.New(o.dir, storer, opts)
	s := strict{Backend: store, kms: o.kms, classes: &sync.Map{}}
	if err != nil || !o.versions {
		return s, err
	}
	s.first = &sync.Mutex{}
	for b := range strings.SplitSeq(o.buckets, ",") { // those that are there already, too
		if err := store.PutBucketVersioning(ctx, b, types.BucketVersioningStatusEnabled); err != nil {
			return strict{}, err
		}
	}
	return s, nil
}

// freeAddress resolves port 0: the gateway binds by itself and does not tell
// which port it got.
func freeAddress(listen string) (string, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func makeBuckets(o options) error {
	for b := range strings.SplitSeq(o.buckets, ",") {
		if err := os.MkdirAll(filepath.Join(o.dir, b), 0o755); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	return nil
}

// waitReady returns when the address accepts connections.
func waitReady(ctx context.Context, addr string, ended <-chan error) error {
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if c, err := net.Dial("tcp", addr); err == nil {
			tick.Stop()
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("server ended at once: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%s does not accept connections after 30 s", addr)
		case <-tick.C:
		}
	}
}
