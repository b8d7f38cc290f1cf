package s3api

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"datamove.dev/mover"
)

// headerRegion is in every answer of AWS to HeadBucket, also in one that says no; see
// HeadBucket in its API reference.
const headerRegion = "X-Amz-Bucket-Region"

// validRegion reports whether s can be a word of AWS or of a site for a region.
func validRegion(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// location is the answer to GetBucketLocation; see its API reference.
type location struct {
	Region string `xml:",chardata"`
}

// named is the region in the words of today.
func (l location) named() string {
	if l.Region == "EU" { // of buckets that are older than regions
		return "eu-west-1"
	}
	return l.Region
}

// bare reports whether an answer without a body leaves open why it was refused.
func bare(err error) bool {
	var a *answer
	return errors.As(err, &a) && (a.status == http.StatusBadRequest || a.status == http.StatusForbidden)
}

func (s *amazon) region(ctx context.Context) (string, error) {
	asked, r := withReply(ctx)
	_, err := s.client.HeadBucket(asked, &sdk.HeadBucketInput{Bucket: &s.bucket})
	if region := r.header.Get(headerRegion); region != "" {
		return region, nil
	}
	if err := understand(ctx, r, err); err != nil && !bare(err) {
		return "", err
	}
	asked, r = withReply(ctx)
	out, err := s.client.GetBucketLocation(asked, &sdk.GetBucketLocationInput{Bucket: &s.bucket})
	if err := understand(ctx, r, err); err != nil {
		return "", err
	}
	return location{string(out.LocationConstraint)}.named(), nil
}

func (s *onprem) region(ctx context.Context) (string, error) {
	asked, r := withReply(ctx)
	err := s.do(s.request(asked, http.MethodHead, "", nil, make(http.Header, 4)), r)
	if region := r.header.Get(headerRegion); region != "" {
		return region, nil
	}
	if err != nil && !bare(err) {
		return "", err
	}
	return s.location(ctx)
}

// location asks where the bucket is in a body.
func (s *onprem) location(ctx context.Context) (string, error) {
	ctx, r := withReply(ctx)
	resp, err := s.transport.RoundTrip(s.request(ctx, http.MethodGet, "", url.Values{"location": {""}}, make(http.Header, 4)))
	if err != nil {
		return "", understand(ctx, r, sent(err))
	}
	defer resp.Body.Close()
	if err := understand(ctx, r, nil); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", BodyError(ctx, err)
	}
	var l location
	if err := xml.Unmarshal(text, &l); err != nil {
		return "", fmt.Errorf("the answer to GetBucketLocation can not be read: %w: %w", mover.ErrTransient, err)
	}
	return l.named(), nil
}

// Region asks in which region the bucket is. It is mover.ErrUnsupported where the store does not say.
func (c *Client) Region(ctx context.Context) (string, error) {
	region, err := c.plain.region(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("in which region it is: %w", err)
	case region == "" && c.amazon:
		return DefaultRegion, nil // GetBucketLocation has no word for it
	case region == "":
		return "", fmt.Errorf("the store does not say in which region the bucket is, neither with HeadBucket nor with GetBucketLocation: %w", mover.ErrUnsupported)
	case !validRegion(region):
		return "", fmt.Errorf("the store says that the bucket is in %.100q, which is no region: %w", region, mover.ErrUnsupported)
	}
	return region, nil
}

// CheckRegion refuses a bucket that is not where it has to be (mover.ErrRefused), before anything of it is asked.
func (c *Client) CheckRegion(ctx context.Context) error {
	want := c.opts.RequireRegion
	if want == "" {
		return nil
	}
	region, err := c.Region(ctx)
	switch {
	case KindOf(err) == mover.ErrUnsupported:
		return fmt.Errorf("%w: it has to be in region %s: %v; take a bucket whose store says so, or leave the required region out", mover.ErrRefused, want, err) //nolint:errorlint // the kind is that of the refusal
	case err != nil:
		return err
	case region != want:
		return fmt.Errorf("%w: the bucket is in region %s and has to be in %s; nothing was read or written: take a bucket there, or mend the required region", mover.ErrRefused, region, want)
	}
	return nil
}
