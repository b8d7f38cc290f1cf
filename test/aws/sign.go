package aws

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// OwnerKey and OwnerSecret are a long-lived key that may do everything.
const (
	OwnerKey    = "AKIAFAKEFAKEFAKEFAKE" //nolint:gosec // it opens nothing but this fake
	OwnerSecret = "a-secret-of-tests-only-0123456789+abcdef"
)

// key is what a signature may be made with, and what its owner may do.
type key struct {
	access, secret, token string
	expires               time.Time // zero is never
	arn                   string    // of the user, or of the role's session
	user                  string    // the UserId of GetCallerIdentity
	policies              []*policy // all of them have to allow; none is everything
}

const algorithm = "AWS4-HMAC-SHA256 "

// authorization is the header, cut into its parts.
type authorization struct {
	access, date, region, service string
	headers                       []string
	signature                     string
}

// parseAuthorization reads "AWS4-HMAC-SHA256 Credential=K/DATE/REGION/SERVICE/aws4_request, SignedHeaders=a;b, Signature=HEX".
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-elements.html
func parseAuthorization(header string) (a authorization, ok bool) {
	rest, ok := strings.CutPrefix(header, algorithm)
	if !ok {
		return a, false
	}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			f := strings.Split(value, "/")
			if len(f) != 5 || f[4] != "aws4_request" {
				return a, false
			}
			a.access, a.date, a.region, a.service = f[0], f[1], f[2], f[3]
		case "SignedHeaders":
			a.headers = strings.Split(value, ";")
		case "Signature":
			a.signature = value
		}
	}
	return a, a.access != "" && a.signature != "" && slices.Contains(a.headers, "host")
}

// scope is the region and service that a request was signed for. Of what is not signed it may be a call of STS, which takes a web identity instead.
func scope(r *http.Request) (region, service string) {
	if r.Header.Get("Authorization") == "" {
		return "", stsService.name
	}
	a, _ := parseAuthorization(r.Header.Get("Authorization"))
	return a.region, a.service
}

// authenticate finds the key of the request and computes its signature again.
func (s *Server) authenticate(r *http.Request, c *call) error {
	if unsigned[c.operation] && c.service == &stsService {
		return nil
	}
	a, ok := parseAuthorization(r.Header.Get("Authorization"))
	if !ok {
		return c.unknown("MissingAuthenticationToken", "the request is not signed, or not with "+strings.TrimSpace(algorithm))
	}
	k := s.keys[a.access]
	if k == nil || subtle.ConstantTimeCompare([]byte(k.token), []byte(r.Header.Get("X-Amz-Security-Token"))) != 1 {
		return c.unknown("InvalidClientTokenId", "The security token included in the request is invalid.")
	}
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || !strings.HasPrefix(r.Header.Get("X-Amz-Date"), a.date) {
		return c.unknown("SignatureDoesNotMatch", "X-Amz-Date is missing, or not the date of the signature's scope")
	}
	if !k.expires.IsZero() && !c.at.Before(k.expires) {
		return c.unknown("ExpiredToken", "The security token included in the request is expired")
	}
	if skew := c.at.Sub(signed).Abs(); s.opts.Skew > 0 && skew > s.opts.Skew {
		return c.unknown("SignatureDoesNotMatch", "Signature expired: it is "+skew.String()+" away from the server's clock")
	}
	if !matches(r, c.body, a, k, signed) {
		return c.unknown("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	}
	c.key = k
	return s.permit(c)
}

// matches signs what the client says it has signed.
func matches(r *http.Request, body []byte, a authorization, k *key, signed time.Time) bool {
	again, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://aws.test/", http.NoBody)
	if err != nil {
		return false
	}
	again.Host = r.Host
	for _, name := range a.headers {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength = int64(len(body))
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	sum := sha256.Sum256(body)
	credentials := sdk.Credentials{AccessKeyID: k.access, SecretAccessKey: k.secret, SessionToken: k.token}
	if err := v4.NewSigner().SignHTTP(context.Background(), credentials, again, hex.EncodeToString(sum[:]), a.service, a.region, signed); err != nil {
		return false
	}
	b, _ := parseAuthorization(again.Header.Get("Authorization"))
	return slices.Equal(a.headers, b.headers) && subtle.ConstantTimeCompare([]byte(a.signature), []byte(b.signature)) == 1
}

// spelling is how the protocols call what is wrong with a signature: query, JSON, EC2.
var spelling = map[string]struct {
	json, ec2             string
	queryStatus, ec2Stats int
}{
	"MissingAuthenticationToken": {"MissingAuthenticationTokenException", "AuthFailure", 403, 401},
	"InvalidClientTokenId":       {"UnrecognizedClientException", "AuthFailure", 403, 401},
	"SignatureDoesNotMatch":      {"InvalidSignatureException", "SignatureDoesNotMatch", 403, 403},
	"ExpiredToken":               {"ExpiredTokenException", "RequestExpired", 403, 400},
}

func (c *call) unknown(code, message string) error {
	how := spelling[code]
	switch c.protocol {
	case &ec2Query:
		return &refusal{code: how.ec2, status: how.ec2Stats, message: message}
	case &json11:
		status := http.StatusBadRequest
		if code == "ExpiredToken" {
			status = http.StatusForbidden
		}
		return &refusal{code: how.json, status: status, message: message}
	}
	return &refusal{code: code, status: how.queryStatus, message: message}
}
