package s3_test

import (
	"context"
	"crypto/md5" // of which SQS makes its checksums
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// sqsServer answers as SQS does by its JSON protocol (AWS, "Making query API requests using AWS JSON protocol") for a standard queue: a message that was received is hidden for the visibility timeout by the clock of the
// test, and comes again with another receipt until it is deleted by its last one (API reference, DeleteMessage); an answer that waits for nothing has some of the messages (ReceiveMessage, "short poll"). It is
// more lenient in that messages come in order and no deleted one comes again: names are a set, and one that is looked at twice is looked at twice.
type sqsServer struct {
	*httptest.Server
	mu       sync.Mutex
	messages []sqsMessage
	made     int
	now      time.Duration // since the beginning
	redrive  string        // its policy; "" is none
	broken   int           // of the next batch so many entries fail
	refuse   int           // an HTTP status; 0 is none
	code     string
	asked    []string
}

// sqsMessage is one of them.
type sqsMessage struct {
	body, receipt string
	id, received  int
	hidden        time.Duration // until then
}

// sqsVisibility is what queues have that say none (CreateQueue, VisibilityTimeout).
const sqsVisibility = 30 * time.Second

func newSQS(t *testing.T) *sqsServer {
	s := &sqsServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *sqsServer) send(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.made++
		s.messages = append(s.messages, sqsMessage{body: text, id: s.made})
	}
}

// pass lets time go by.
func (s *sqsServer) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += d
}

// sqsGiven is a message of an answer.
type sqsGiven struct {
	ID      string `json:"MessageId"`
	Receipt string `json:"ReceiptHandle"`
	Sum     string `json:"MD5OfBody"`
	Body    string
}

func (s *sqsServer) receive(in *sqsAsked) (given []sqsGiven) {
	for i := range s.messages {
		m := &s.messages[i]
		if m.hidden > s.now || len(given) == in.Most || in.Wait == 0 && i%2 == 1 {
			continue
		}
		m.received++
		m.hidden, m.receipt = s.now+sqsVisibility, fmt.Sprintf("receipt-%03d-%d", m.id, m.received)
		given = append(given, sqsGiven{fmt.Sprint("message-", m.id), m.receipt, fmt.Sprintf("%x", md5.Sum([]byte(m.body))), m.body})
	}
	return given
}

// remove deletes what receipts are of, and answers with status 200 whatever fails (API reference, DeleteMessageBatch).
func (s *sqsServer) remove(in *sqsAsked) string {
	var done, failed []string
	for _, e := range in.Entries {
		var id, nth int
		switch _, err := fmt.Sscanf(e.Receipt, "receipt-%d-%d", &id, &nth); {
		case err != nil:
			failed = append(failed, fmt.Sprintf(`{"Id":%q,"SenderFault":true,"Code":"ReceiptHandleIsInvalid"}`, e.ID))
			continue
		case s.broken > 0:
			s.broken--
			failed = append(failed, fmt.Sprintf(`{"Id":%q,"SenderFault":false,"Code":"InternalError"}`, e.ID))
			continue
		}
		s.messages = slices.DeleteFunc(s.messages, func(m sqsMessage) bool { return m.receipt == e.Receipt }) // an older receipt deletes nothing
		done = append(done, fmt.Sprintf(`{"Id":%q}`, e.ID))
	}
	return fmt.Sprintf(`{"Successful":[%s],"Failed":[%s]}`, strings.Join(done, ","), strings.Join(failed, ","))
}

func (s *sqsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	var in sqsAsked
	err := json.NewDecoder(r.Body).Decode(&in)
	s.asked = append(s.asked, fmt.Sprint(what, " ", in.Wait))
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch {
	case s.refuse != 0:
		w.Header().Set("x-amzn-query-error", s.code+";Sender")
		w.WriteHeader(s.refuse)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"no"}`, s.code)
	case err != nil || r.Method != http.MethodPost || !strings.HasSuffix(in.URL, "/1/q") || !strings.Contains(r.Header.Get("Authorization"), "/sqs/aws4_request"):
		w.WriteHeader(http.StatusBadRequest)
	case in.wrong(what) != "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"as the API reference has it"}`, in.wrong(what))
	case what == "ReceiveMessage":
		_ = json.NewEncoder(w).Encode(struct {
			Messages []sqsGiven `json:",omitempty"`
		}{s.receive(&in)})
	case what == "GetQueueAttributes":
		said := map[string]string{"MessageRetentionPeriod": "345600", "VisibilityTimeout": strconv.Itoa(int(sqsVisibility / time.Second))}
		if s.redrive != "" {
			said["RedrivePolicy"] = s.redrive
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Attributes": said})
	case what == "DeleteMessageBatch":
		fmt.Fprint(w, s.remove(&in))
	}
}

// sqsAsked is what is asked of a queue.
type sqsAsked struct {
	URL        string   `json:"QueueUrl"`
	Most       int      `json:"MaxNumberOfMessages"`
	Wait       int      `json:"WaitTimeSeconds"`
	Attributes []string `json:"AttributeNames"`
	Entries    []struct {
		ID      string `json:"Id"`
		Receipt string `json:"ReceiptHandle"`
	}
}

// wrong is the code with which SQS refuses a request (Amazon SQS API Reference); "" is none.
func (in *sqsAsked) wrong(what string) string {
	ids := map[string]bool{}
	for _, e := range in.Entries {
		ids[e.ID] = true
	}
	switch {
	case what == "ReceiveMessage" && (in.Most < 1 || in.Most > 10 || in.Wait < 0 || in.Wait > 20):
		return "InvalidParameterValue"
	case what == "DeleteMessageBatch" && len(in.Entries) == 0:
		return "EmptyBatchRequest"
	case what == "DeleteMessageBatch" && len(in.Entries) > 10:
		return "TooManyEntriesInBatchRequest"
	case what == "DeleteMessageBatch" && len(ids) < len(in.Entries):
		return "BatchEntryIdsNotDistinct"
	case what == "GetQueueAttributes" && !slices.Equal(in.Attributes, []string{"MessageRetentionPeriod", "VisibilityTimeout", "RedrivePolicy"}):
		return "InvalidAttributeName"
	case !slices.Contains([]string{"ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes"}, what):
		return "UnsupportedOperation"
	}
	return ""
}

// Messages as AWS documents them (Amazon S3 user guide, "Event message structure"; SNS, "HTTP/HTTPS notification JSON format"; EventBridge, "EventBridge event message structure"), without fields that are not
// read.
const (
	direct = `{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"eu-central-1","eventTime":"2026-11-26T10:00:00.000Z","eventName":"ObjectCreated:Put","s3":{"s3SchemaVersion":"1.0","configurationId":"all","bucket":{"name":"BUCKET","arn":"arn:aws:s3:::BUCKET"},"object":{"key":"PREFIXrun+1/a%26b%2Bc.pt","size":3,"eTag":"x","sequencer":"1"}}}]}`
	tested = `{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-26T10:00:00.000Z","Bucket":"BUCKET","RequestId":"x","HostId":"y"}`
	bridge = `{"version":"0","detail-type":"Object Deleted","source":"aws.s3","time":"2026-11-26T10:00:01Z","region":"eu-central-1","detail":{"bucket":{"name":"BUCKET"},"object":{"key":"PREFIXgone+%2f","sequencer":"2"},"reason":"DeleteObject"}}`
	other  = `{"Records":[{"eventTime":"2026-11-26T10:00:00.000Z","s3":{"bucket":{"name":"another"},"object":{"key":"PREFIXx"}}},{"s3":{"bucket":{"name":"BUCKET"},"object":{"key":"elsewhere/x"}}},{"s3":{"bucket":{"name":"BUCKET"},"object":{"key":"PREFIX.datamove/lock"}}}]}`
)

// TestQueue: what a queue of AWS says of the bucket are names, however it came there; what is of others is nothing, and what is not understood is told; and messages come again
// until they are done with.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestQueue(t *testing.T) {
	server := s3test.Start(t, false)
	o := server.Options(t)
	place := s3test.Open(t, o)
	sqs := newSQS(t)
	q, err := place.Queue(sqs.URL + "/1/q")
	must.Do(t, err)
	for policy, want := range map[string]time.Duration{
		"": 96 * time.Hour,
		`{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:1:dead","maxReceiveCount":"3"}`:      60 * time.Second,
		`{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:1:dead","maxReceiveCount":1}`:        0,
		`{"maxReceiveCount":99999999999,"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:1:d"}`: 96 * time.Hour,
	} {
		sqs.redrive = policy
		if kept, hidden, err := q.Kept(t.Context()); err != nil || kept != want || (hidden == sqsVisibility) != (policy != "") {
			t.Errorf("policy %q: it keeps things for %v, hidden for %v, %v, want %v", policy, kept, hidden, err, want)
		}
	}
	sqs.redrive = "{"
	if kept, _, err := q.Kept(t.Context()); err == nil {
		t.Errorf("a policy that is none: it keeps things for %v", kept)
	}
	sqs.redrive = ""
	filled := func(text string) string {
		return strings.NewReplacer("BUCKET", server.Bucket, "PREFIX", strings.Trim(o.Prefix, "/")+"/").Replace(text)
	}
	wrapped, _ := json.Marshal(map[string]string{"Type": "Notification", "MessageId": "x", "TopicArn": "arn:aws:sns:eu-central-1:1:topic", "Message": filled(direct)})
	receive := func() (names []string, lost []string, first time.Time, done func(context.Context) error, more bool, err error) {
		done, more, err = q.Receive(t.Context(), 20*time.Second, func(name string, at time.Time) {
			if names = append(names, name); first.IsZero() {
				first = at
			}
		}, func(why string) { lost = append(lost, why) })
		return names, lost, first, done, more, err
	}
	sqs.send(filled(direct), filled(tested), filled(bridge), filled(other), string(wrapped), "{]", `{"something":"else"}`)
	var late func(context.Context) error
	for range 2 {
		names, lost, first, done, more, err := receive()
		if err != nil || !more || !slices.Equal(names, []string{"run 1/a&b+c.pt", "gone+%2f", "run 1/a&b+c.pt"}) || len(lost) != 2 || !first.Equal(time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)) {
			t.Fatalf("%q, lost %q, %v, %v", names, lost, first, err)
		}
		if _, _, _, _, more, err := receive(); err != nil || more {
			t.Errorf("what was received is not hidden: %v", err)
		}
		if sqs.pass(sqsVisibility); late == nil {
			late = done
		}
	}
	if must.Do(t, late(t.Context())); len(sqs.messages) != 7 {
		t.Errorf("the receipts of messages that came again leave %d of 7", len(sqs.messages))
	}
	_, _, _, done, _, err := receive()
	sqs.broken = 1
	must.Do(t, errors.Join(err, done(t.Context())))
	sqs.pass(sqsVisibility)
	names, _, _, done, more, err := receive()
	if err != nil || !more || !slices.Equal(names, []string{"run 1/a&b+c.pt"}) {
		t.Errorf("what could not be deleted comes again: %q, %v", names, err)
	}
	must.Do(t, done(t.Context()))
	if names, lost, _, done, more, err := receive(); err != nil || more || names != nil || lost != nil || done(t.Context()) != nil {
		t.Errorf("after they are done with: %q, %q, %v", names, lost, err)
	}
	if !slices.Contains(sqs.asked, "ReceiveMessage 20") {
		t.Errorf("asked: %q", sqs.asked)
	}
	for _, row := range []struct {
		status int
		code   string
		kind   error
	}{{400, "QueueDoesNotExist", mover.ErrUsage}, {403, "AccessDeniedException", mover.ErrPermission}, {503, "ServiceUnavailable", mover.ErrTransient}} {
		sqs.refuse, sqs.code = row.status, row.code
		if _, _, _, _, _, err := receive(); !errors.Is(err, row.kind) {
			t.Errorf("%s: %v", row.code, err)
		}
	}
	sqs.Close()
	if _, _, _, _, _, err := receive(); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
	for _, address := range []string{"arn:aws:sqs:eu-central-1:1:q", "", "ftp://x/1/q"} {
		if _, err := place.Queue(address); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestQueueTrust: a queue is asked with the authorities of the place, as the store is.
func TestQueueTrust(t *testing.T) {
	queue := httptest.NewTLSServer(&sqsServer{})
	defer queue.Close()
	o := s3test.Start(t, false).Options(t)
	o.CABundle = filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(o.CABundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: queue.Certificate().Raw}), 0o600))
	q, err := s3test.Open(t, o).Queue(queue.URL + "/1/q")
	must.Do(t, err)
	_, _, err = q.Kept(t.Context())
	must.Do(t, err)
}
