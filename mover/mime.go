package mover

import (
	"path"
	"strings"
)

// typesOfNames are content types by the endings of names (IANA, "Media Types"; a few that are in use and not registered begin with x-). The table is
// ours, so that all machines say the same, whatever is in their /etc/mime.types. A type says nothing of the encoding of a text: that is not known.
var typesOfNames = map[string]string{
	"html": "text/html", "htm": "text/html", "xhtml": "application/xhtml+xml", "css": "text/css", "js": "text/javascript", "mjs": "text/javascript",
	"json": "application/json", "map": "application/json", "jsonld": "application/ld+json", "geojson": "application/geo+json", "webmanifest": "application/manifest+json",
	"xml": "application/xml", "rss": "application/rss+xml", "atom": "application/atom+xml", "wasm": "application/wasm",
	"txt": "text/plain", "text": "text/plain", "log": "text/plain", "md": "text/markdown", "csv": "text/csv", "tsv": "text/tab-separated-values",
	"yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml", "ics": "text/calendar", "vtt": "text/vtt", "py": "text/x-python", "sh": "application/x-sh",
	"svg": "image/svg+xml", "png": "image/png", "apng": "image/apng", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp", "avif": "image/avif",
	"heic": "image/heic", "bmp": "image/bmp", "tif": "image/tiff", "tiff": "image/tiff", "ico": "image/vnd.microsoft.icon",
	"woff": "font/woff", "woff2": "font/woff2", "ttf": "font/ttf", "otf": "font/otf",
	"mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "mov": "video/quicktime", "mkv": "video/matroska", "avi": "video/x-msvideo", "mpeg": "video/mpeg", "mpg": "video/mpeg", "ogv": "video/ogg",
	"m3u8": "application/vnd.apple.mpegurl", "mpd": "application/dash+xml",
	"mp3": "audio/mpeg", "m4a": "audio/mp4", "ogg": "audio/ogg", "oga": "audio/ogg", "opus": "audio/ogg", "wav": "audio/wav", "flac": "audio/flac", "aac": "audio/aac", "mid": "audio/midi",
	"pdf": "application/pdf", "ps": "application/postscript", "eps": "application/postscript", "rtf": "application/rtf", "epub": "application/epub+zip", "tex": "application/x-tex",
	"doc": "application/msword", "xls": "application/vnd.ms-excel", "ppt": "application/vnd.ms-powerpoint",
	"docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	"odt":  "application/vnd.oasis.opendocument.text", "ods": "application/vnd.oasis.opendocument.spreadsheet", "odp": "application/vnd.oasis.opendocument.presentation",
	"zip": "application/zip", "gz": "application/gzip", "tgz": "application/gzip", "bz2": "application/x-bzip2", "xz": "application/x-xz", "zst": "application/zstd",
	"tar": "application/x-tar", "7z": "application/x-7z-compressed", "jar": "application/java-archive",
	"parquet": "application/vnd.apache.parquet", "nc": "application/x-netcdf", "h5": "application/x-hdf5", "hdf5": "application/x-hdf5", "sqlite": "application/vnd.sqlite3",
}

// TypeOfName is the content type of an object from a source that tells no headers; "" is none.
func TypeOfName(name string) string {
	base := path.Base(name)
	i := strings.LastIndexByte(base, '.')
	if i <= 0 { // ".profile" has no ending
		return ""
	}
	return typesOfNames[strings.ToLower(base[i+1:])]
}
