// Command image makes the container image of datamove, without a daemon: the static programs
// that make dist leaves, on an empty base, for every architecture.
//
// The same programs give the same image, bit by bit: no clock of the machine is in it. What
// it writes is an OCI layout in a tar, which ctr, podman and skopeo take, and for each
// architecture one that docker load of any age takes, too. It is a module of its own, so that
// what only speaks to registries is no dependency of the programs.
//
// TestSame shows that it is reproducible, TestArchives that others can read it, TestPush that
// a registry gets it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var in facts
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&in.Dir, "programs", "dist", "directory with PROGRAM-linux-ARCH")
	archs := f.String("architectures", "amd64,arm64", "architectures that there are programs of")
	out := f.String("out", "dist/image", "directory of the archives")
	image := f.String("name", "datamove.dev/datamove", "name of the image, without a tag")
	push := f.String("push", "", "push it as REGISTRY/NAME or REGISTRY/NAME:TAG; \"\" pushes nothing")
	f.StringVar(&in.Version, "version", "unknown", "version, and tag")
	f.StringVar(&in.Revision, "revision", "", "commit")
	f.StringVar(&in.Source, "source", "https://datamove.dev", "where the source is")
	epoch := f.Int64("epoch", 0, "time of everything in the image, in seconds since 1970")
	if err := f.Parse(args); err != nil {
		return err
	}
	in.Architectures = strings.Split(*archs, ",")
	in.Time = time.Unix(*epoch, 0).UTC()
	made, err := build(in)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(*image+":"+in.Version, name.StrictValidation)
	if err != nil {
		return err
	}
	files, err := archives(*out, tag, made)
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Println(filepath.Clean(file))
	}
	digest, err := made.index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", tag, digest)
	if *push == "" {
		return nil
	}
	return pushed(ctx, made, *push, in.Version)
}

// pushed sends the image to a registry, with the credentials that docker login or podman login left.
func pushed(ctx context.Context, made *made, to, version string) error {
	if !strings.Contains(to[strings.LastIndexByte(to, '/')+1:], ":") {
		to += ":" + version
	}
	ref, err := name.ParseReference(to, name.StrictValidation)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, made.index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Println("pushed", ref)
	return nil
}
