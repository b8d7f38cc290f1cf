package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
)

func identityCommand(a *cli.App) *cobra.Command {
	var out, revoke string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "identity NAME | identity --revoke SERIAL",
		Short: "Make the certificate with which a person calls from another machine, or revoke one",
		Long: `Identity makes a private key, has the service sign a certificate for it, and writes
both to identity.pem in a new directory. The configuration of the service maps NAME
to an account, as in users: {alice: {certificate: alice}}. The person keeps the file
as ~/.config/datamove/identity.pem, with mode 0600, or where DATAMOVE_IDENTITY says,
and calls with --service tcp://HOST:PORT.

The file stands for that account until the certificate ends. With --revoke the
service refuses it at once.`,
		Example: "  datamove service identity alice --for 2160h --out alice\n  datamove service identity --revoke 5f0c2a…",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&out, "out", "", "directory for identity.pem; without it NAME in the working directory")
	cmd.Flags().DurationVar(&life, "for", 0, "how long the certificate lasts, at most a year; without it 30 days")
	cmd.Flags().StringVar(&revoke, "revoke", "", "serial of a certificate that is to be refused from now on")
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		switch {
		case (revoke == "") == (len(args) == 0):
			return mover.Misusef("want the name of a person, or --revoke SERIAL")
		case revoke != "" && (out != "" || life != 0):
			return mover.Misusef("--revoke excludes --out and --for")
		}
		return a.AskService(ctx, "", func(c *api.Client) error {
			if revoke != "" {
				_, err := c.RevokeIdentity(ctx, &pb.RevokeIdentityRequest{Serial: revoke})
				return err
			}
			return makeIdentity(ctx, a, c, args[0], out, life)
		})
	})
	return cmd
}

// makeIdentity has a certificate signed and written. The private key never leaves this machine.
func makeIdentity(ctx context.Context, a *cli.App, c *api.Client, name, out string, life time.Duration) error {
	if !pki.ValidName(name) {
		return mover.Misusef("%s is no name of a person: letters, digits and . _ - @", mover.Printable(name))
	}
	if out == "" {
		out = name
	}
	if _, err := os.Lstat(out); errors.Is(err, os.ErrNotExist) {
		defer func() { _ = os.Remove(out) }() // while there is nothing in it
	}
	keeper, err := pki.OpenStore(out, pki.Identity{Role: pki.User, Name: name}, pki.StoreOptions{})
	if err != nil {
		return err
	}
	request := &pb.IssueIdentityRequest{Name: name}
	if life != 0 {
		request.Life = durationpb.New(life)
	}
	var issued *pb.IssuedIdentity
	err = keeper.Obtain(ctx, func(ctx context.Context, csr []byte) (certificate, authority []byte, err error) {
		request.Csr = csr
		issued, err = c.IssueIdentity(ctx, request)
		return issued.GetCertificate(), issued.GetAuthority(), err
	})
	if err != nil || a.Quiet {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "wrote %s: account %s, until %s, serial %s\n", mover.Printable(filepath.Join(out, "identity.pem")),
		cli.Shown(issued.GetAccount()), issued.GetExpireTime().AsTime().Local().Format(time.DateTime), issued.GetSerial())
	return err
}
