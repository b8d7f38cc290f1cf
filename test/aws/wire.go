package aws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// protocol is how calls look on the wire.
type protocol struct {
	contentType string
	unknown     string // the code for an operation that is not there
	read        func(c *call, r *http.Request) error
	write       func(c *call, result any) []byte
	refuse      func(c *call, e *refusal) []byte
	parameters  func(c *call) (all map[string]any, token string)
}

// service is one of AWS: what it is called in the scope of a signature, and what it can do.
type service struct {
	name       string
	iam        string // its name in the actions of policies
	target     string // before the operation in X-Amz-Target
	namespace  string // of its XML
	version    string
	regional   bool
	protocol   *protocol
	operations map[string]operation
}

// operation does a call, under the server's lock.
type operation func(s *Server, c *call) (any, error)

var services = map[string]*service{}

func init() {
	for _, svc := range []*service{&fsxService, &stsService, &ec2Service, &cloudWatchService, &costService} {
		services[svc.name] = svc
	}
}

// refusal is an error as the services answer it.
type refusal struct {
	code    string
	status  int // of HTTP; 0 is 400
	message string
	more    map[string]string // further members, by name
}

func (e *refusal) Error() string { return e.code + ": " + e.message }

func refuse(code, format string, args ...any) error {
	return &refusal{code: code, status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func (c *call) asRefusal(err error) *refusal {
	var e *refusal
	if !errors.As(err, &e) {
		e = &refusal{code: c.broken(), status: http.StatusInternalServerError, message: err.Error()}
	}
	if e.status == 0 {
		e.status = http.StatusBadRequest
	}
	return e
}

// json11 is awsJson1_1.
var json11 = protocol{
	contentType: "application/x-amz-json-1.1",
	unknown:     "UnknownOperationException",
	read: func(c *call, r *http.Request) error {
		prefix, op, ok := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if !ok || prefix != c.target {
			return fmt.Errorf("the X-Amz-Target of %s is %s.OPERATION, and not %s", c.name, c.target, printable(r.Header.Get("X-Amz-Target")))
		}
		if r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
			return fmt.Errorf("the Content-Type is not application/x-amz-json-1.1 but %s", printable(r.Header.Get("Content-Type")))
		}
		c.operation = op
		return nil
	},
	write: func(_ *call, result any) []byte { return mustJSON(result) },
	refuse: func(_ *call, e *refusal) []byte {
		body := map[string]string{"__type": e.code, "Message": e.message}
		for name, value := range e.more {
			body[name] = value
		}
		return mustJSON(body)
	},
	parameters: func(c *call) (map[string]any, string) {
		all := readable(c.body)
		token, _ := all["ClientRequestToken"].(string)
		return all, token
	},
}

// awsQuery has forms in and XML out, and ec2Query the same with replies of its own.
var (
	awsQuery = protocol{
		contentType: "text/xml", unknown: "InvalidAction", read: readForm, parameters: formParameters,
		write: func(c *call, result any) []byte {
			return mustXML(element{c.operation + "Response", c.namespace, []element{
				{c.operation + "Result", "", result}, {"ResponseMetadata", "", []element{{"RequestId", "", c.id}}}}})
		},
		refuse: func(c *call, e *refusal) []byte {
			fault := "Sender"
			if e.status >= 500 {
				fault = "Receiver"
			}
			return mustXML(element{"ErrorResponse", c.namespace, []element{
				{"Error", "", []element{{"Type", "", fault}, {"Code", "", e.code}, {"Message", "", e.message}}}, {"RequestId", "", c.id}}})
		},
	}
	ec2Query = protocol{
		contentType: "text/xml;charset=UTF-8", unknown: "InvalidAction", read: readForm, parameters: formParameters,
		write: func(c *call, result any) []byte {
			return mustXML(element{c.operation + "Response", c.namespace, append([]element{{"requestId", "", c.id}}, result.([]element)...)})
		},
		refuse: func(c *call, e *refusal) []byte {
			return mustXML(element{"Response", "", []element{
				{"Errors", "", []element{{"Error", "", []element{{"Code", "", e.code}, {"Message", "", e.message}}}}}, {"RequestID", "", c.id}}})
		},
	}
)

func readForm(c *call, r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return fmt.Errorf("the Content-Type of a query is application/x-www-form-urlencoded, and not %s", printable(r.Header.Get("Content-Type")))
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return fmt.Errorf("the body is no form: %w", err)
	}
	if v := form.Get("Version"); v != c.version {
		return fmt.Errorf("the Version of %s is %s, and not %s", c.name, c.version, printable(v))
	}
	c.operation, c.form = form.Get("Action"), form
	return nil
}

func formParameters(c *call) (map[string]any, string) {
	all := map[string]any{}
	for name, values := range c.form {
		all[name] = strings.Join(values, ",")
		if secrets[name] {
			all[name] = "[secret]"
		}
	}
	return all, ""
}

// element is one of XML. Its value is what is in it: a list of elements, or what encoding/xml knows.
type element struct {
	name, namespace string
	value           any
}

// MarshalXML writes it: the names of replies are known only when they are written.
func (e element) MarshalXML(to *xml.Encoder, _ xml.StartElement) error {
	start := xml.StartElement{Name: xml.Name{Local: e.name}}
	if e.namespace != "" {
		start.Attr = []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: e.namespace}}
	}
	parts, ok := e.value.([]element)
	if !ok {
		return to.EncodeElement(e.value, start)
	}
	errs := []error{to.EncodeToken(start)}
	for _, part := range parts {
		errs = append(errs, part.MarshalXML(to, start))
	}
	return errors.Join(append(errs, to.EncodeToken(start.End()))...)
}

func mustXML(v any) []byte {
	text, err := xml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a reply of the fake is no XML: %v", err)) // of our own types only
	}
	return append([]byte(xml.Header), text...)
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a reply of the fake is no JSON: %v", err)) // of our own types only
	}
	return text
}

// jsonOperation makes one of a function with its own request. A member that the function does not know is refused, because it would be passed over.
func jsonOperation[I any](do func(s *Server, c *call, in *I) (any, error)) operation {
	return func(s *Server, c *call) (any, error) {
		in := new(I)
		d := json.NewDecoder(bytes.NewReader(c.body))
		d.DisallowUnknownFields()
		if err := d.Decode(in); err != nil {
			return nil, refuse("SerializationException", "this fake of AWS does not understand the body of %s: %v", c.operation, err)
		}
		return do(s, c, in)
	}
}

// epoch is a time as JSON has it: seconds since 1970, with milliseconds.
type epoch time.Time

// MarshalJSON writes the number.
func (e epoch) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Time(e).UnixMilli())/1000, 'f', 3, 64), nil
}

func at(t time.Time) *epoch { e := epoch(t); return &e }

// page cuts what comes after token: at most limit of them, and never more than most. A token says the serial number of the last one, so that what is deleted in between does no harm.
func page[T interface{ order() uint64 }](all []T, limit *int, most int, token string) (part []T, next string, err error) {
	after, err := untoken(token)
	if err != nil {
		return nil, "", err
	}
	if limit != nil && *limit < 1 {
		return nil, "", refuse("BadRequest", "MaxResults is %d: at least 1", *limit)
	}
	if limit != nil {
		most = min(most, *limit)
	}
	for _, one := range all {
		if one.order() <= after {
			continue
		}
		if len(part) == most {
			return part, tokenOf(part[most-1].order()), nil
		}
		part = append(part, one)
	}
	return part, "", nil
}

func tokenOf(last uint64) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "after %d", last))
}

func untoken(token string) (after uint64, err error) {
	if token == "" {
		return 0, nil
	}
	text, err := base64.StdEncoding.DecodeString(token)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "after %d", &after)
	}
	if err != nil {
		return 0, refuse("BadRequest", "NextToken %s is none of ours", printable(token))
	}
	return after, nil
}
