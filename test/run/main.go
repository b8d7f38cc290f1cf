// Command run runs go test and tells the truth at the end: how many tests passed,
// failed and were skipped, and why each of the skipped ones was.
//
//	go run ./test/run [-modules .,test/s3dev] [-v] [arguments of go test]
//
// It prints what go test prints: one line per package, and the output of what
// failed. With DATAMOVE_STRICT=1 a skipped test is a failure, because a machine
// that should run everything does. What another target runs ("elsewhere: make e2e-vm: ...")
// is counted apart.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("DATAMOVE_STRICT") == "1", os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "test/run:", err)
		os.Exit(1)
	}
}

func run(args []string, strict bool, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	modules := flags.String("modules", ".", "folders of the modules to test, separated by commas")
	verbose := flags.Bool("v", false, "print the output of every test")
	ours, theirs := split(args)
	if err := flags.Parse(ours); err != nil {
		return err
	}
	t := &tally{out: stdout, verbose: *verbose, held: map[testID][]string{}, elsewhere: map[string]int{}}
	var failed error
	for dir := range strings.SplitSeq(*modules, ",") {
		failed = errors.Join(failed, goTest(dir, theirs, t, stderr))
	}
	return errors.Join(failed, t.end(strict))
}

// split parts our flags from those of go test: ours come first, and each names itself.
func split(args []string) (ours, theirs []string) {
	for len(args) > 0 {
		switch {
		case args[0] == "-v":
			ours, args = append(ours, args[0]), args[1:]
		case args[0] == "-modules" && len(args) > 1:
			ours, args = append(ours, args[:2]...), args[2:]
		default:
			return ours, args
		}
	}
	return ours, nil
}

func goTest(dir string, args []string, t *tally, stderr io.Writer) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := t.read(events)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go test in %s: %w", dir, err)
	}
	return readErr
}
