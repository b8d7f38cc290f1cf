package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"datamove.dev/mover/units"
)

// Endpoint looks at a server before anyone signs a request: whether it answers,
// the name in its certificate, and the time of its clock. ca is a file of certificates
// to trust beside the system's; "" is none.
func Endpoint(ctx context.Context, endpoint, ca string) []Finding {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return []Finding{fail(endpoint, "reach", "is not a URL", "write it like https://s3.example.org:9000")}
	}
	roots, bad := trusted(ca)
	if bad != nil {
		return []Finding{*bad}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	date, took, err := ask(ctx, transport, endpoint)
	if err != nil {
		return []Finding{unreachable(endpoint, err)}
	}
	found := []Finding{pass(endpoint, "reach", fmt.Sprintf("answers in %d ms", took.Milliseconds())), clock(endpoint, date, took)}
	if u.Scheme == "http" {
		found = append(found, warn(endpoint, "encryption", "plain http: every host on the way can read and change what is sent", "use https"))
	}
	return found
}

// ask makes one request and returns the Date of the answer, which may be any: a
// store denies what is not signed.
func ask(ctx context.Context, transport http.RoundTripper, endpoint string) (date string, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, endpoint, nil)
	if err != nil {
		return "", 0, err
	}
	begun := time.Now()
	answer, err := transport.RoundTrip(request) // redirects are not followed
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	return answer.Header.Get("Date"), time.Since(begun), nil
}

// trusted returns the certificates to trust: the system's, those of AWS_CA_BUNDLE,
// and ca.
func trusted(ca string) (*x509.CertPool, *Finding) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, file := range []string{os.Getenv("AWS_CA_BUNDLE"), ca} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			f := fail(file, "certificates", why(err), "mend ca: of the tier, or AWS_CA_BUNDLE")
			return nil, &f
		}
		if !roots.AppendCertsFromPEM(text) {
			f := fail(file, "certificates", "has no certificate", "write certificates in PEM form to it: -----BEGIN CERTIFICATE-----")
			return nil, &f
		}
	}
	return roots, nil
}

// unreachable says why there was no answer, from the most to the least precise.
func unreachable(endpoint string, err error) Finding {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		dns     *net.DNSError
		network net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return fail(endpoint, "certificate", "is signed by an authority that this machine does not trust",
			"put the authority's certificate into a file, and name it with ca: of the tier, or with AWS_CA_BUNDLE")
	case errors.As(err, &host):
		return fail(endpoint, "certificate", "is for another host: "+host.Error(), "use the name in the certificate as the endpoint")
	case errors.As(err, &invalid):
		return fail(endpoint, "certificate", invalid.Error(), "renew it on the server, or set the clock of this machine")
	case errors.As(err, &record):
		return fail(endpoint, "reach", "does not speak TLS on that port", "write http:// instead of https://, or use the TLS port")
	case errors.As(err, &dns):
		return fail(endpoint, "reach", "the host name is not known", "mend the name in endpoint:, or /etc/resolv.conf")
	case errors.As(err, &network) && network.Timeout():
		return fail(endpoint, "reach", "does not answer within 10 s", "check that the server runs, and the firewalls between")
	case errors.Is(err, io.EOF):
		return fail(endpoint, "reach", "ends the connection without an answer", "use the port on which the server speaks HTTP")
	case errors.As(err, &op):
		err = op.Err // the address is known
	}
	return fail(endpoint, "reach", err.Error(), "check that the server runs, its port, and the firewalls between")
}

// The skew from which a signature is refused (RequestTimeTooSkewed: 15 minutes, see
// "Authenticating requests" in the Amazon S3 API reference), and from which it is
// worth a word. The Date header has whole seconds.
const (
	mostSkew = 15 * time.Minute
	someSkew = 30 * time.Second
)

func clock(endpoint, date string, took time.Duration) Finding {
	there, err := http.ParseTime(date)
	if err != nil {
		return pass(endpoint, "clock", "not known: the server sends no Date")
	}
	skew := time.Since(there) - took/2
	word := "behind"
	if skew < 0 {
		skew, word = -skew, "ahead of"
	}
	detail := fmt.Sprintf("the server is %s %s this machine", units.Duration(skew.Round(time.Second)), word)
	const mend = "set both clocks by NTP (chronyc tracking shows this one)"
	switch {
	case skew >= mostSkew:
		return fail(endpoint, "clock", detail+": it will refuse every request", mend)
	case skew >= someSkew:
		return warn(endpoint, "clock", detail, mend)
	}
	return pass(endpoint, "clock", "agrees with this machine's")
}
