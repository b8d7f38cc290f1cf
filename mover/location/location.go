// Package location reads and prints addresses of places: where data is, in one
// word of a command line, a policy, or a job script.
//
//	/path  ./path  path  file:///path     a POSIX path
//	s3://bucket/prefix                    a prefix, or an object, of a bucket
//	TIER:path                             below a tier of the configuration
//	dataset:name[@digest]                 a named dataset
//
// A word before the first colon that has no '/' before it names a scheme or a
// tier, so a relative path with a colon is written ./a:b, and a file - is ./-. Everything here is pure;
// FuzzParse shows that what is printed is read back as the same.
package location

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"datamove.dev/mover"
)

// Scheme is the kind of an address.
type Scheme string

// The schemes.
const (
	POSIX   Scheme = "posix"
	S3      Scheme = "s3"
	InTier  Scheme = "tier"
	Dataset Scheme = "dataset"
)

// Location is an address. Parse makes one.
type Location struct {
	Scheme Scheme

	Path string // POSIX: absolute or relative, without empty and "." segments; InTier: clean and relative, "" is the tier itself

	Bucket string // S3
	Prefix string // S3: without slashes at its ends; "" is the whole bucket

	Tier   string // InTier
	Name   string // Dataset
	Digest string // Dataset: "" is the newest, else sha256 in hex

	// TrailingSlash says that the address ended in '/': it is meant as a directory.
	TrailingSlash bool
}

// Parse reads an address. Its errors are mover.ErrUsage.
func Parse(s string) (Location, error) {
	if s == "" {
		return Location{}, fmt.Errorf("%w: a location is empty", mover.ErrUsage)
	}
	if s == "-" {
		return Location{}, bad(s, "it stands for a stream, which is not copied; ./- is a file of that name")
	}
	if strings.ContainsRune(s, 0) {
		return Location{}, bad(s, "it has a NUL byte")
	}
	word, rest, ok := strings.Cut(s, ":")
	if !ok || strings.Contains(word, "/") || word == "" {
		return posix(s), nil
	}
	for _, k := range kinds {
		if k.word == word {
			return k.parse(s, rest)
		}
	}
	return parseTier(s, word, rest)
}

func bad(s, why string) error {
	return fmt.Errorf("%w: location %s: %s", mover.ErrUsage, mover.Printable(s), why)
}

// posix takes out slashes and dots that mean nothing. ".." stays: behind a symlink
// it leads elsewhere than the text says, and the kernel knows where.
func posix(s string) Location {
	var segments []string
	last := ""
	for segment := range strings.SplitSeq(s, "/") {
		if last = segment; segment != "" && segment != "." {
			segments = append(segments, segment)
		}
	}
	p := strings.Join(segments, "/")
	if s[0] == '/' {
		p = "/" + p
	} else if p == "" {
		p = "."
	}
	return Location{Scheme: POSIX, Path: p, TrailingSlash: last == "" || last == "." && p != "." || p == "/"}
}

func parseFile(s, rest string) (Location, error) {
	p, ok := strings.CutPrefix(rest, "//")
	if !ok || !strings.HasPrefix(p, "/") {
		return Location{}, bad(s, "a file address is file:///absolute/path")
	}
	if strings.Contains(strings.ToLower(p), "%2f") {
		return Location{}, bad(s, "a name has no slash, not an escaped one either")
	}
	p, err := url.PathUnescape(p)
	if err != nil {
		return Location{}, bad(s, "behind a % come two hexadecimal digits; the sign itself is %25")
	}
	if strings.ContainsRune(p, 0) {
		return Location{}, bad(s, "it has a NUL byte")
	}
	return posix(p), nil
}

// parseStore reads what names objects of a store.
func parseStore(scheme Scheme, s, rest string) (Location, error) {
	word := string(scheme) + "://"
	p, ok := strings.CutPrefix(rest, "//")
	bucket, prefix, _ := strings.Cut(p, "/")
	switch {
	case strings.Contains(bucket, "@"): // what is before it may be a secret: it is not repeated
		return Location{}, bad(word+"...", "keys and endpoints do not belong into an address, but into the configuration or the environment")
	case !ok || bucket == "":
		meant := ""
		if at := strings.TrimLeft(rest, "/"); at != "" && !strings.Contains(at, "@") {
			meant = "; did you mean " + word + at + "?"
		}
		return Location{}, bad(s, "an "+strings.ToUpper(string(scheme))+" address is "+word+"bucket or "+word+"bucket/prefix"+meant)
	case !mover.ValidBucket(bucket):
		return Location{}, bad(s, "a bucket has 3 to 255 letters, digits, dots, underscores, colons and hyphens")
	}
	l := Location{Scheme: scheme, Bucket: bucket, TrailingSlash: prefix == "" || strings.HasSuffix(prefix, "/")}
	l.Prefix = strings.TrimSuffix(prefix, "/")
	if !mover.ValidName(l.Prefix) {
		return Location{}, bad(s, `the prefix has an empty, "." or ".." segment`)
	}
	return l, nil
}

func parseDataset(s, rest string) (Location, error) {
	name, digest, pinned := strings.Cut(rest, "@")
	digest = strings.TrimPrefix(digest, "sha256:")
	switch {
	case !validWord(name):
		return Location{}, bad(s, "a dataset's name has letters, digits, dots, underscores and hyphens")
	case pinned && !validDigest(digest):
		return Location{}, bad(s, "a digest is a SHA-256 of 64 hexadecimal digits")
	}
	return Location{Scheme: Dataset, Name: name, Digest: digest}, nil
}

func parseTier(s, tier, rest string) (Location, error) {
	if !validWord(tier) {
		return Location{}, bad(s, "what stands before the colon is no tier, and nothing is copied over ssh (mount it here, or have a service there); write a path with a colon as ./"+s)
	}
	if strings.HasPrefix(rest, "//") {
		if strings.Contains(rest, "@") { // a password may stand before it
			s = tier + "://..."
		}
		meant := otherSchemes[strings.ToLower(tier)]
		if word := strings.ToLower(tier); word == "s3" || word == "file" {
			meant = "; did you mean " + word + ":" + rest + "?"
		}
		return Location{}, bad(s, "the schemes are "+written()+meant)
	}
	l := Location{Scheme: InTier, Tier: tier, TrailingSlash: rest == "" || strings.HasSuffix(rest, "/")}
	if rest != "" {
		if l.Path = path.Clean(strings.TrimLeft(rest, "/")); l.Path == "." {
			l.Path, l.TrailingSlash = "", true
		}
	}
	if !mover.ValidName(l.Path) {
		return Location{}, bad(s, "it leads out of the tier")
	}
	return l, nil
}

// otherSchemes say what is written here in place of an address of another tool.
var otherSchemes = map[string]string{
	"http": webScheme, "https": webScheme, "tcp": serviceScheme, "unix": serviceScheme, "grpc": serviceScheme,
	"ssh": shellScheme, "scp": shellScheme, "sftp": shellScheme, "rsync": shellScheme, "ftp": shellScheme, "nfs": shellScheme, "smb": shellScheme,
	"gs": storeScheme, "gcs": storeScheme, "az": storeScheme, "azblob": storeScheme, "azure": storeScheme, "abfs": storeScheme, "abfss": storeScheme, "wasb": storeScheme,
	"s3a": storeScheme, "s3n": storeScheme, "minio": storeScheme, "oss": storeScheme, "cos": storeScheme, "b2": storeScheme, "r2": storeScheme, "swift": storeScheme,
	"hdfs": storeScheme, "jfs": shellScheme, "juicefs": shellScheme,
}

const (
	webScheme     = "; an object is s3://bucket/key, with the address of its store in AWS_ENDPOINT_URL_S3 or endpoint: of a tier"
	serviceScheme = "; the address of a service goes with --service or DATAMOVE_SERVICE, and what is copied there is a path or TIER:path"
	shellScheme   = "; no other host is asked: mount it here and name the path, or have a service there"
	storeScheme   = "; a store that speaks S3 is s3://bucket/prefix, with its address in AWS_ENDPOINT_URL_S3 or endpoint: of a tier"
)

func validWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && s[0] != '.' && s[0] != '-'
}

func validDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
