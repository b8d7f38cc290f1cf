// Command worker is what pods of tests run: there is no shell in their images.
//
//	worker pause                 until it is told to end
//	worker fill FILE BYTES       write until FILE has so many bytes; what keeps it from that is said by its name, as EDQUOT
//	worker read FILE             print it
//	worker write FILE TEXT
//	worker list DIRECTORY        names, a line each
//	worker fetch URL             GET it as the pod's service account, and print the status
//	worker then COMMAND... , COMMAND... , pause     one after the other, until one fails
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		text := err.Error()
		if errno := syscall.Errno(0); errors.As(err, &errno) {
			text = unix.ErrnoName(errno) + ": " + text
		}
		fmt.Println(text)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "then" {
		for rest := args[1:]; len(rest) > 0; {
			one := rest
			if i := slices.Index(rest, ","); i >= 0 {
				one, rest = rest[:i], rest[i+1:]
			} else {
				rest = nil
			}
			if err := run(one); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case len(args) == 1 && args[0] == "pause":
		pause()
		return nil
	case len(args) == 3 && args[0] == "fill":
		return fill(args[1], args[2])
	case len(args) == 2 && args[0] == "read":
		text, err := os.ReadFile(args[1])
		fmt.Print(string(text))
		return err
	case len(args) == 3 && args[0] == "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	case len(args) == 2 && args[0] == "list":
		entries, err := os.ReadDir(args[1])
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case len(args) == 2 && args[0] == "fetch":
		return fetch(args[1])
	}
	return fmt.Errorf("it can not do %q", args)
}

// pause waits for the end. As process 1 of a pod it takes in those whose parents have ended.
func pause() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-ended:
			return
		case <-children:
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}
}

func fill(path, size string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := []byte(strings.Repeat("datamove", 8<<10))
	for off := int64(0); off < n; off += int64(len(block)) {
		if _, err := f.WriteAt(block[:min(int64(len(block)), n-off)], off); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// account is where a pod finds its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func fetch(url string) error {
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody) //nolint:gosec // a test says where
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	reply, err := client.Do(request) //nolint:gosec // the same
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	fmt.Println(reply.Status)
	return nil
}
