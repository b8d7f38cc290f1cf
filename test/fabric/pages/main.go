// Command pages is an S3 server without a disk: what its objects contain is made
// of their key, so that a scale model reads as much as it likes from one machine.
//
// It serves one bucket of FOLDERS × OBJECTS objects of one size, 000/00000.bin and
// so on, and answers HEAD, GET with ranges and conditions, and ListObjectsV2, with ETags
// and the CRC-64/NVME of the whole object. Every signature is accepted, and nothing
// can be written. The content of an object is a page of random bytes, repeated from
// a place that its key decides; the page has an odd length, so that no part of a file
// looks like its neighbour. Nothing compresses it below the size of a page, and to
// send it costs a copy to the socket.
//
// When the server is ready it prints "endpoint http://127.0.0.1:41233" and "ready".
// It ends on SIGINT, SIGTERM, and after -for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

type options struct {
	listen string
	life   time.Duration
	bucket bucket
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("pages", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "address; port 0 takes a free one")
	flags.DurationVar(&o.life, "for", time.Hour, "how long to serve")
	flags.StringVar(&o.bucket.name, "bucket", "pages", "name of the bucket")
	flags.IntVar(&o.bucket.folders, "folders", 1, "folders, at most 1000")
	flags.IntVar(&o.bucket.objects, "objects", 1, "objects in each folder, at most 100000")
	flags.Int64Var(&o.bucket.size, "bytes", 1<<20, "size of each object")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.bucket.check()
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.life)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newStore(o.bucket), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	done := context.AfterFunc(ctx, func() { _ = server.Close() }) // what is being read is cut: nobody waits for it
	defer done()
	fmt.Fprintf(out, "endpoint http://%s\nready\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
