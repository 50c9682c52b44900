package inbox

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxID is how long an event's id may be, in bytes.
const maxID = 256

// Event is a CloudEvent as it came from Kafka. Its bytes are not to be changed: another try may need them.
type Event struct {
	// ID names the event. A producer that sends it again sends the same id.
	ID string
	// Type says what happened and in which version of the data, such as khata.transfer.posted.v1.
	Type string
	// Source is who says so. An id of another source names another event.
	Source string
	// Subject is what it happened to; often empty.
	Subject string
	// Time is when the event was recorded. It is the same at every delivery, unless the producer recorded the event anew.
	Time time.Time
	// ContentType is the media type of Data, such as application/protobuf.
	ContentType string
	// Data is the record's value.
	Data []byte
	// Key is the record's key: Kafka keeps the order of events that have the same one.
	Key []byte
	// Headers are all of the record's headers, those of CloudEvents among them.
	Headers []kgo.RecordHeader
	// Topic, Partition and Offset are where it was found. They say nothing of what the event is: another delivery can have others.
	Topic     string
	Partition int32
	Offset    int64
}

// delivery is an event with what the inbox knows of it.
type delivery struct {
	Event
	// malformed says why the record is no event; ID is then what there was of one.
	malformed error
	// epoch is the leader's, for the commit of its offset.
	epoch int32
}

// read makes an event of a record. One that is none has an id all the same: that of the record, if it came with none that can be used.
func read(r *kgo.Record) delivery {
	d := delivery{epoch: r.LeaderEpoch, Event: Event{
		Data: r.Value, Key: r.Key, Headers: r.Headers, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	}}
	d.malformed = d.readHeaders()
	if d.ID == "" {
		d.ID = fmt.Sprintf("kafka:%s/%d/%d", r.Topic, r.Partition, r.Offset)
	}
	return d
}

func (d *delivery) readHeaders() error {
	var version, at string
	attributes := map[string]*string{
		"ce_specversion": &version, "ce_id": &d.ID, "ce_type": &d.Type, "ce_source": &d.Source, "ce_subject": &d.Subject, "ce_time": &at,
		"content-type": &d.ContentType,
	}
	var wrong error
	seen := map[string]bool{}
	for _, h := range d.Headers {
		into, ours := attributes[h.Key]
		text := string(h.Value)
		switch {
		case !ours:
		case seen[h.Key]:
			wrong = fmt.Errorf("it has the header %s twice", h.Key)
		case !isText(text):
			wrong = fmt.Errorf("the header %s is no text in UTF-8", h.Key)
		case h.Key == "ce_id" && len(text) > maxID:
			wrong = fmt.Errorf("its ce_id has %d bytes, and %d are allowed", len(text), maxID)
		default:
			*into = text
		}
		seen[h.Key] = seen[h.Key] || ours
	}
	if wrong != nil {
		return wrong
	}
	if version == "" && strings.HasPrefix(d.ContentType, "application/cloudevents") {
		return fmt.Errorf("it is a CloudEvent in structured mode (%s), and only binary mode is read", d.ContentType)
	}
	for _, need := range []string{"ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time"} {
		if *attributes[need] == "" {
			return fmt.Errorf("it has no %s", need)
		}
	}
	if version != "1.0" {
		return fmt.Errorf("its ce_specversion is %q, not 1.0", version)
	}
	// RFC 3339 allows small letters.
	when, err := time.Parse(time.RFC3339Nano, strings.ToUpper(at))
	if err != nil {
		return fmt.Errorf("its ce_time %q is not in the form of RFC 3339", at)
	}
	d.Time = when.UTC()
	return nil
}

// isText reports whether PostgreSQL can store it as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// toText makes text of what may be none, of a length that a person can bear.
func toText(s string) string {
	const most = 8 << 10
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// hash is the same in every version of Go and of PostgreSQL, and is kept.
func hash(parts ...string) int64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	return int64(h.Sum64())
}
